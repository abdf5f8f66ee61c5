"""The Agent Host Protocol itself, pure: shapes, URIs, versions, frames, checks and reducers. No I/O, no host, no Jupyter."""
