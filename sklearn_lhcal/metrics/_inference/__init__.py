"""How sure a metric is: intervals over samples and raters, accumulators, reader studies.

A `Statistic` is a metric of given data that can be evaluated without parts of them. Its `Design`
says which: blocks of samples, raters, cells. The `Replicates` are its values without each, from
which follows the `Spread`, a variance with its degrees of freedom, and from this Student's
interval. A curve, such as a reliability curve, brings the variance over samples itself and takes
from the `Statistic` of its means what raters add (`means`).
"""
