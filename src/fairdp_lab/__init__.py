"""The laboratory of fairdp: comparisons, the paper's studies, attacks, benchmarks and figures."""
