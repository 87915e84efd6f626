"""Train classifiers with differential privacy and certified group fairness."""
