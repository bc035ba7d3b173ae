"""The history for others: exports, PREMIS, and a verifier that needs nothing of ours."""
