//! `tributary.v1`: what operators ask; see `proto/tributary/v1`.
