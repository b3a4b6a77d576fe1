"""What a query gives: its rows as a stream that a thread computes, or an explanation."""
