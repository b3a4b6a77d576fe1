"""The parts that statements share: base class, table names, columns, partitions, conditions."""
