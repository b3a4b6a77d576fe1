"""Plans and scans: the file index for Catalyst, distributed replay, frames."""
