//! What clients ask.

use linkerd2_proxy_api::destination::GetDestination;
use prost::Message as _;

use crate::cluster::{NAMESPACE, node_name, service_name};

pub const PATH: &str = "/io.linkerd.proxy.destination.Destination/Get";

/// What one stream asks.
pub struct Question {
    /// About which Service.
    pub service: u32,
    /// With the prefix of gRPC.
    pub message: Vec<u8>,
}

// === impl Question ===

impl Question {
    pub fn about(service: u32) -> Self {
        Self::from_node(service, 1)
    }

    pub fn from_node(service: u32, node: u32) -> Self {
        let question = GetDestination {
            path: format!("{}.{NAMESPACE}.svc.cluster.local:80", service_name(service)),
            context_token: format!(
                r#"{{"ns":"{NAMESPACE}","nodeName":"{}","pod":"client"}}"#,
                node_name(node)
            ),
            ..GetDestination::default()
        }
        .encode_to_vec();
        let len = u32::try_from(question.len()).expect("it is short");
        let mut message = vec![0];
        message.extend_from_slice(&len.to_be_bytes());
        message.extend_from_slice(&question);
        Self { service, message }
    }
}

/// The number of the Service that a question is about, if it is one of these.
pub fn service_in(question: &[u8]) -> Option<u32> {
    const MARK: &[u8] = b"web-";
    let start = question.windows(MARK.len()).position(|some| some == MARK)? + MARK.len();
    let digits = question[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}
