"""The asyncio loop that joins informers, engine and writer."""
