"""Plans and scans: the file index that Catalyst asks, distributed replay, frames."""
