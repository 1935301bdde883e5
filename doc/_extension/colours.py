"""Okabe and Ito's colours, which people who see colours differently can tell apart too.

One colour a method, in every example.
"""

BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"

PALETTE = [BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY]

# uncalibrated predictions, scaled for the log loss, and what comes after: α, or costs
RAW = BLUE
SCALED = VERMILLION
CALIBRATED = GREEN
