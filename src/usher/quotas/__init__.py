"""Quota sources, one module each: objects of the API in, nodes of one tree out, and what is wrong with which object."""
