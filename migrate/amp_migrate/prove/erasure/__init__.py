"""Whether two programs are the same when the precision is taken out of both."""
