"""How the columns of a table are read with noise, where nobody has declared them."""

# Deviation of the noise on the counts of values, on those of kinds and sizes, and on the numbers of distinct values, in
# units of the first: categories need most, and whether a column is an identifier can be told by far less.
VALUES, SHAPES, DISTINCT = 1, 2, 4
# A value that fewer people have is never named, whatever the noise.
FEWEST = 10
# Part of the privacy, in inverse variances, and of δ that reading gets.
SHARE, DELTA_SHARE = 0.1, 0.1
