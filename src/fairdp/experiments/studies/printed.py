"""What the paper prints: its tables, and the numbers of its text."""

# Records, features and positives.
SIZES = {
    "adult": (48_842, "41", 11_687),
    "credit": (30_000, "89", 6_636),
    "utkface": (23_795, "48 × 48 × 1", 8_608),
}
# AUC, accuracy, and the gaps of demographic parity, EOpp and "EOdd" by M, at ε = 1.
IMPACT_OF_M = {
    ("adult", 0.25): (0.59, 0.75, 0.0, 0.0, 0.0),
    ("adult", 0.50): (0.77, 0.76, 0.001, 0.002, 0.001),
    ("adult", 0.75): (0.79, 0.79, 0.019, 0.021, 0.005),
    ("adult", 1.00): (0.80, 0.80, 0.027, 0.038, 0.011),
    ("credit", 0.25): (0.73, 0.78, 0.0, 0.0, 0.0),
    ("credit", 0.50): (0.75, 0.80, 0.011, 0.026, 0.009),
    ("credit", 0.75): (0.76, 0.81, 0.013, 0.018, 0.009),
    ("credit", 1.00): (0.76, 0.81, 0.016, 0.016, 0.009),
    ("utkface", 0.25): (0.73, 0.64, 0.0, 0.0, 0.0),
    ("utkface", 0.50): (0.79, 0.71, 0.087, 0.090, 0.044),
    ("utkface", 0.75): (0.80, 0.73, 0.115, 0.104, 0.061),
    ("utkface", 1.00): (0.80, 0.75, 0.130, 0.115, 0.068),
}
# Monte Carlo errors of ten heads, for demographic parity, equal opportunity and equalized odds.
ERRORS = {
    "adult": ("4.37e-5", "3.16e-4", "3.7e-4"),
    "credit": ("1.1e-4", "4.8e-4", "6.2e-4"),
    "utkface": ("1.36e-4", "3.7e-4", "6.1e-4"),
}
# FairDP's parity gap in the text, by ε.
GAPS_IN_TEXT = {"adult": {0.5: 0.014, 2.0: 0.025}}
# Gain over DP-IS-SGD at ε = .5, averaged over the three gaps, as fractions.
GAINS_IN_TEXT = {"credit": 0.7841, "utkface": 0.7408}
