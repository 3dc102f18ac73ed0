"""Our kinds as the API server knows them: types, rules, the CRDs made from them, and helpers to read and write."""
