"""What works on each version of Spark, recorded into docs/sparks.json (`make record-sparks`)."""
