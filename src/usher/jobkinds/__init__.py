"""One module per kind of job: where its pods are described, how it is held and released, how it is read.

A kind is pure: decoded objects in, patches and facts out. The runtime does the talking.
"""
