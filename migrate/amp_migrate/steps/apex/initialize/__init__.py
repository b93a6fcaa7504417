"""`amp.initialize` and its like: what is prepared, when, and with which loss scale."""
