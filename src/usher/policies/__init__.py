"""Queue, share and victim policies, and the registry that names them."""
