"""What an inspection may cost: every cap is here, and whatever is cut says so on the page."""

MOST_SYMBOLS = 1_000  # of an input or an output; longer ones are refused
WINDOW = 100  # rows and columns of a heat map; longer lines show their first ones
MOST_PANELS = 48  # heat maps of one kind; beyond that, only the mean over the heads of each layer
MOST_INPUTS = 50  # lines that are shown in full; of a table, the worst
MOST_ROWS = 1_000  # lines of a table that are looked at
MOST_TRAINING_LINES = 20_000  # that are read from the files of a run, or of a table
MOST_ATTRIBUTED = 60  # symbols on each side for which gradients and leave-one-out are computed
MOST_HEADS = 64  # that are ablated one by one
MOST_MEASURED = 200  # lines on which an ablation or a reset is measured
MOST_TEXT = 60_000  # symbols of text over which units are ranked
SHOWN_TEXT = 600  # symbols of it that are coloured
MOST_STATE_NUMBERS = 50_000_000  # of states that are kept at a time: 200 MB
MOST_PROBED = 2_000  # lines that probes of the bottleneck see
MOST_COMPARED = 10_000  # training lines among which neighbours are searched
MOST_SECONDS = 120.0  # after which lines and summaries that are not begun yet are left out
