//! Tributary: endpoint discovery for multi-cluster Kubernetes.
