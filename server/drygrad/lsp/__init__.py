"""The language server: text in, diagnostics and fixes out."""
