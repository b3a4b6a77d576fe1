"""What statements share: their base class, tables that they name, columns, partitions,
conditions."""
