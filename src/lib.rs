//! Tributary: endpoint discovery for multi-cluster Kubernetes.

pub mod proto;
