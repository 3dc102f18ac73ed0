"""What is read over HTTP: health and metrics. It is told what to ask by small values, and knows no cluster."""
