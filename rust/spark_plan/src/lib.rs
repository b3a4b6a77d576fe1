//! Plans of Spark scans: the filters of Catalyst become predicates, the files that can hold rows become
//! the bytes that the file index of Spark reads. Splits and the distributed replay of large logs. No Python.
