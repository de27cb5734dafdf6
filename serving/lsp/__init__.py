"""The language server: predictions and profiles of HIP kernels in any editor that speaks LSP."""
