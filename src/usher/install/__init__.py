"""What is installed into a cluster, as objects, and how they get there and leave again.

One source: `whole.parts(values)`. `usher install` applies it, `usher install --print` prints it, and the Helm chart in
deploy/helm is the same with holes where the values go.
"""
