"""The history: events linked, sealed into signed blocks, witnessed outside, and proved to whoever asks.

    event_body, merkle    bytes and hashes: RFC 8785 and RFC 6962
    chain, block, seal    leaf ← event, block ← leaves, head ← blocks
    keys, head, witness   who signs, what is published, where it is kept
    verify, proofs        is all of it as it was sealed? is this one event in it?
    ledger, sealer        the rows in the store, and whoever seals them
    exchange/             export and standalone_verifier for whoever checks without us; PREMIS for other archives

Functions over values: the store finds the rows and keeps the results, the engine says when.
"""
