"""How sure a metric is: intervals over samples and raters, accumulators, reader studies."""
