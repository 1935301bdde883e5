# Every program of the papers' pages at its full size, and the table that it prints: `make studies`.
# A table that exists is not made again: a run that was stopped goes on. Remove it to make it anew,
# `make studies ONE=lesions` makes one. Its last line says what it took.
TABLES = doc/papers/tables

# P1 in the first line, then P2, P3 and P4
HERE = debiasing method_table uncertainty_modes one_label
HERE += kernel_convergence kernel_calibration training_study regularized_training
HERE += epistemic_toy epistemic_letters epistemic_order epistemic_digits delayed_decisions
HERE += gaussian_process_classes
HERE += paper_table decision_failure_mode decision_treatment mushrooms lesions
# these fetch their data
FETCHED = mix_mnist training_dermamnist epistemic_emnist epistemic_kuzushiji
# these need saved class probabilities of CIFAR-10's test images: PREDICTIONS=file.npz
ifdef PREDICTIONS
SAVED = one_label_human human_labels decision_human_labels
endif
ONE ?= $(HERE) $(SAVED) $(FETCHED)

# a program of benchmarks/papers by its name, or what is said here
epistemic_digits = examples/plot_epistemic_digits.py
paper_table = $(paper)/decision_paper_table.py
training_dermamnist = $(paper)/training_study.py --data dermamnist
epistemic_emnist = $(paper)/epistemic_letters.py --data emnist
epistemic_kuzushiji = $(paper)/epistemic_letters.py --data kuzushiji
one_label_human = $(paper)/one_label.py --human
mushrooms = $(paper)/decision_files.py --shape mushrooms
lesions = $(paper)/decision_files.py --shape lesions
paper = benchmarks/papers

all: $(ONE:%=$(TABLES)/%.txt)

# `times` says in its second line what programs took, of processors and of the system
$(TABLES)/%.txt:
	mkdir -p $(TABLES)
	MPLBACKEND=Agg FULL=1 $(BIN)/python $(or $($*),$(paper)/$*.py) > $@.part && times > $@.times
	sed -n '2s/\([0-9]*\)m\([0-9]*\).*/\nIt took \1 min \2 s of processor time./p' $@.times >> $@.part
	rm $@.times
	mv $@.part $@
