//! Our messages against `linkerd2-proxy-api`, an independent implementation of the same interface. Needs nothing.
//!
//! One text builds the same values with both sets of types. Field names, types and oneofs are thereby equal, or this does
//! not compile; that every field is listed holds for new ones too. Numbers and encodings are equal because each side's
//! bytes, read by the other, give the other's value.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use bytes::Bytes;
use prost::Message;
use std::fmt::Debug;
use tributary::proto;

macro_rules! samples {
    ($name:ident, $($api:ident)::+) => {
        mod $name {
            use $($api)::+::destination::{
                self, AddrSet, AuthorityOverride, DestinationProfile, GetDestination,
                Http2ClientParams, HttpStatusRange, NoEndpoints, PathMatch, ProtocolHint,
                RequestMatch, ResponseClass, ResponseMatch, RetryBudget, Route, TlsIdentity,
                Update, WeightedAddr, WeightedAddrSet, WeightedDst, http2_client_params,
                protocol_hint, request_match, response_match, tls_identity,
            };
            use $($api)::+::http_types::{self, Headers, HttpMethod, Scheme};
            use $($api)::+::meta::{Metadata, Resource, metadata};
            use $($api)::+::net::{IPv6, IpAddress, IpNetwork, TcpAddress, ip_address};

            fn labels<M: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> M {
                pairs
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect()
            }

            fn duration(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
                Some(prost_types::Duration { seconds, nanos })
            }

            fn ipv4(ip: u32) -> IpAddress {
                IpAddress { ip: Some(ip_address::Ip::Ipv4(ip)) }
            }

            fn ipv6() -> IpAddress {
                let ip = IPv6 { first: 0x2001_0DB8_0001_0002, last: 0x0003_0004_0005_0006 };
                IpAddress { ip: Some(ip_address::Ip::Ipv6(ip)) }
            }

            fn addresses() -> Vec<TcpAddress> {
                vec![
                    TcpAddress { ip: Some(ipv4(0x0A00_0001)), port: 8080 },
                    TcpAddress { ip: Some(ipv4(0)), port: 65_535 },
                    TcpAddress { ip: Some(ipv6()), port: 1 },
                    TcpAddress { ip: Some(IpAddress { ip: None }), port: 0 },
                    TcpAddress { ip: None, port: 2 },
                ]
            }

            fn resource() -> Option<Metadata> {
                Some(Metadata {
                    kind: Some(metadata::Kind::Resource(Resource {
                        group: "core".to_owned(),
                        kind: "Service".to_owned(),
                        name: "web".to_owned(),
                        namespace: "shop".to_owned(),
                        section: "http".to_owned(),
                        port: 80,
                    })),
                })
            }

            fn built_in() -> Option<Metadata> {
                Some(Metadata { kind: Some(metadata::Kind::Default("built-in".to_owned())) })
            }

            fn dns(name: &str) -> tls_identity::DnsLikeIdentity {
                tls_identity::DnsLikeIdentity { name: name.to_owned() }
            }

            fn weighted_addr(
                strategy: tls_identity::Strategy,
                protocol: protocol_hint::Protocol,
                resource_ref: Option<Metadata>,
            ) -> WeightedAddr {
                WeightedAddr {
                    addr: Some(TcpAddress { ip: Some(ipv4(0x0A2A_0007)), port: 8080 }),
                    weight: 10_000,
                    metric_labels: labels(&[("pod", "web-1"), ("zone", "a"), ("empty", "")]),
                    tls_identity: Some(TlsIdentity {
                        strategy: Some(strategy),
                        server_name: Some(dns("sni.example")),
                    }),
                    protocol_hint: Some(ProtocolHint {
                        protocol: Some(protocol),
                        opaque_transport: Some(protocol_hint::OpaqueTransport {
                            inbound_port: 4143,
                        }),
                    }),
                    authority_override: Some(AuthorityOverride {
                        authority_override: "web.shop.svc.cluster.local:80".to_owned(),
                    }),
                    http2: Some(Http2ClientParams {
                        flow_control: Some(http2_client_params::FlowControl {
                            initial_connection_window_size: 1_048_576,
                            initial_stream_window_size: 65_535,
                            adaptive_flow_control: true,
                        }),
                        keep_alive: Some(http2_client_params::KeepAlive {
                            interval: duration(10, 1),
                            timeout: duration(3, 500_000_000),
                            while_idle: true,
                        }),
                        internals: Some(http2_client_params::Internals {
                            max_concurrent_reset_streams: 7,
                            max_frame_size: 16_384,
                            max_send_buf_size: 400_000,
                        }),
                    }),
                    resource_ref,
                }
            }

            fn full_addr() -> WeightedAddr {
                weighted_addr(
                    tls_identity::Strategy::DnsLikeIdentity(dns("web.shop.example")),
                    protocol_hint::Protocol::H2(protocol_hint::H2 {}),
                    resource(),
                )
            }

            pub(super) fn get_destination() -> Vec<GetDestination> {
                vec![
                    GetDestination {
                        scheme: "k8s".to_owned(),
                        path: "web.shop.svc.cluster.local:80".to_owned(),
                        context_token: r#"{"ns":"shop","nodeName":"n1"}"#.to_owned(),
                    },
                    GetDestination::default(),
                ]
            }

            pub(super) fn update() -> Vec<Update> {
                use destination::update::Update as Kind;
                [
                    Kind::Add(WeightedAddrSet {
                        addrs: vec![
                            full_addr(),
                            weighted_addr(
                                tls_identity::Strategy::UriLikeIdentity(
                                    tls_identity::UriLikeIdentity {
                                        uri: "spiffe://example/web".to_owned(),
                                    },
                                ),
                                protocol_hint::Protocol::Opaque(protocol_hint::Opaque {}),
                                built_in(),
                            ),
                            WeightedAddr::default(),
                        ],
                        metric_labels: labels(&[("service", "web"), ("namespace", "shop")]),
                    }),
                    Kind::Add(WeightedAddrSet::default()),
                    Kind::Remove(AddrSet { addrs: addresses() }),
                    Kind::Remove(AddrSet::default()),
                    Kind::NoEndpoints(NoEndpoints { exists: true }),
                    Kind::NoEndpoints(NoEndpoints { exists: false }),
                ]
                .into_iter()
                .map(|update| Update { update: Some(update) })
                .chain([Update { update: None }])
                .collect()
            }

            fn method(kind: http_types::http_method::Type) -> RequestMatch {
                RequestMatch {
                    r#match: Some(request_match::Match::Method(HttpMethod { r#type: Some(kind) })),
                }
            }

            fn requests() -> Vec<RequestMatch> {
                use http_types::http_method::{Registered, Type};
                let mut matches: Vec<RequestMatch> = [
                    Registered::Get, Registered::Post, Registered::Put, Registered::Delete,
                    Registered::Patch, Registered::Options, Registered::Connect,
                    Registered::Head, Registered::Trace,
                ]
                .into_iter()
                .map(|registered| method(Type::Registered(registered.into())))
                .collect();
                matches.push(method(Type::Unregistered("PURGE".to_owned())));
                matches.push(RequestMatch {
                    r#match: Some(request_match::Match::Path(PathMatch {
                        regex: "/api/.*".to_owned(),
                    })),
                });
                matches.push(RequestMatch::default());
                let any = RequestMatch {
                    r#match: Some(request_match::Match::Any(request_match::Seq { matches })),
                };
                let all = RequestMatch {
                    r#match: Some(request_match::Match::All(request_match::Seq {
                        matches: vec![any.clone(), RequestMatch::default()],
                    })),
                };
                let not = RequestMatch {
                    r#match: Some(request_match::Match::Not(Box::new(any.clone()))),
                };
                vec![any, all, not]
            }

            fn responses() -> Vec<ResponseMatch> {
                let status = ResponseMatch {
                    r#match: Some(response_match::Match::Status(HttpStatusRange {
                        min: 500,
                        max: 599,
                    })),
                };
                let any = ResponseMatch {
                    r#match: Some(response_match::Match::Any(response_match::Seq {
                        matches: vec![status.clone(), ResponseMatch::default()],
                    })),
                };
                let all = ResponseMatch {
                    r#match: Some(response_match::Match::All(response_match::Seq {
                        matches: vec![any.clone()],
                    })),
                };
                let not = ResponseMatch {
                    r#match: Some(response_match::Match::Not(Box::new(status.clone()))),
                };
                vec![status, any, all, not]
            }

            pub(super) fn profile() -> Vec<DestinationProfile> {
                vec![
                    DestinationProfile {
                        routes: requests()
                            .into_iter()
                            .map(|condition| Route {
                                condition: Some(condition),
                                response_classes: responses()
                                    .into_iter()
                                    .map(|condition| ResponseClass {
                                        condition: Some(condition),
                                        is_failure: true,
                                    })
                                    .collect(),
                                metrics_labels: labels(&[("route", "GET /api"), ("b", "c")]),
                                is_retryable: true,
                                timeout: duration(25, 7),
                            })
                            .collect(),
                        retry_budget: Some(RetryBudget {
                            retry_ratio: 0.2,
                            min_retries_per_second: 10,
                            ttl: duration(10, 0),
                        }),
                        dst_overrides: vec![WeightedDst {
                            authority: "web-v2.shop.svc.cluster.local:80".to_owned(),
                            weight: 9,
                            backend_ref: resource(),
                        }],
                        opaque_protocol: true,
                        fully_qualified_name: "web.shop.svc.cluster.local".to_owned(),
                        endpoint: Some(full_addr()),
                        parent_ref: resource(),
                        profile_ref: built_in(),
                    },
                    DestinationProfile::default(),
                ]
            }

            pub(super) fn network() -> Vec<IpNetwork> {
                vec![
                    IpNetwork { ip: Some(ipv4(0x0A00_0000)), prefix_len: 8 },
                    IpNetwork { ip: Some(ipv6()), prefix_len: 64 },
                ]
            }

            pub(super) fn scheme() -> Vec<Scheme> {
                use http_types::scheme::{Registered, Type};
                [
                    Type::Registered(Registered::Http.into()),
                    Type::Registered(Registered::Https.into()),
                    Type::Unregistered("ftp".to_owned()),
                ]
                .into_iter()
                .map(|kind| Scheme { r#type: Some(kind) })
                .collect()
            }

            pub(super) fn headers() -> Vec<Headers> {
                let header = |name: &str, value: &'static [u8]| http_types::headers::Header {
                    name: name.to_owned(),
                    value: super::Bytes::from_static(value).into(),
                };
                vec![Headers { headers: vec![header("x-a", b"\x00\xFF"), header("", b"")] }]
            }
        }
    };
}

samples!(ours, tributary::proto);
samples!(theirs, linkerd2_proxy_api);

/// Each of `ours` is the same message as the one of `theirs` at its place.
fn check<A, B>(ours: &[A], theirs: &[B])
where
    A: Message + Default + PartialEq + Debug,
    B: Message + Default + PartialEq + Debug,
{
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(
            &B::decode(ours.encode_to_vec().as_slice()).unwrap(),
            theirs,
            "our bytes, read by them"
        );
        assert_eq!(
            &A::decode(theirs.encode_to_vec().as_slice()).unwrap(),
            ours,
            "their bytes, read by us"
        );
        assert_eq!(ours.encoded_len(), theirs.encoded_len());
    }
}

#[test]
fn requests_agree() {
    check(&ours::get_destination(), &theirs::get_destination());
}

#[test]
fn updates_agree() {
    check(&ours::update(), &theirs::update());
}

#[test]
fn profiles_agree() {
    check(&ours::profile(), &theirs::profile());
}

#[test]
fn messages_that_destinations_do_not_use_agree() {
    check(&ours::network(), &theirs::network());
    check(&ours::scheme(), &theirs::scheme());
    check(&ours::headers(), &theirs::headers());
}

#[test]
fn zero_members_of_a_oneof_are_written() {
    use proto::{http_types::HttpMethod, http_types::http_method::Type, net};
    let get = HttpMethod {
        r#type: Some(Type::Registered(0)),
    };
    assert_eq!(get.encode_to_vec(), [0x08, 0]);
    let unspecified = net::IpAddress {
        ip: Some(net::ip_address::Ip::Ipv4(0)),
    };
    assert_eq!(unspecified.encode_to_vec(), [0x0D, 0, 0, 0, 0]);
}

#[test]
fn maps_are_written_in_the_order_of_their_keys() {
    let pair = |key: &str| (key.to_owned(), String::new());
    let set = |keys: [&str; 3]| proto::destination::WeightedAddrSet {
        addrs: Vec::new(),
        metric_labels: keys.into_iter().map(pair).collect(),
    };
    let bytes = set(["c", "a", "b"]).encode_to_vec();
    assert_eq!(
        bytes,
        b"\x12\x03\x0A\x01a\x12\x03\x0A\x01b\x12\x03\x0A\x01c"
    );
}

#[test]
fn descriptors_are_complete_and_name_the_methods_that_proxies_call() {
    let set = prost_types::FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    let files: Vec<&str> = set
        .file
        .iter()
        .map(prost_types::FileDescriptorProto::name)
        .collect();
    for file in &set.file {
        for import in &file.dependency {
            assert!(files.contains(&import.as_str()), "{import} is missing");
        }
    }
    let mut methods: Vec<String> = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                assert!(!method.client_streaming());
                methods.push(format!(
                    "/{}.{}/{} {} -> {}{}",
                    file.package(),
                    service.name(),
                    method.name(),
                    method.input_type(),
                    if method.server_streaming() {
                        "stream "
                    } else {
                        ""
                    },
                    method.output_type(),
                ));
            }
        }
    }
    methods.sort();
    assert_eq!(
        methods,
        [
            "/io.linkerd.proxy.destination.Destination/Get \
             .io.linkerd.proxy.destination.GetDestination -> \
             stream .io.linkerd.proxy.destination.Update",
            "/io.linkerd.proxy.destination.Destination/GetProfile \
             .io.linkerd.proxy.destination.GetDestination -> \
             stream .io.linkerd.proxy.destination.DestinationProfile",
            "/tributary.v1.Introspection/Explain \
             .tributary.v1.ExplainRequest -> \
             .tributary.v1.Explanation",
            "/tributary.v1.Introspection/ListChanges \
             .tributary.v1.ListChangesRequest -> \
             .tributary.v1.ListChangesResponse",
            "/tributary.v1.Introspection/ListClusters \
             .tributary.v1.ListClustersRequest -> \
             .tributary.v1.ListClustersResponse",
            "/tributary.v1.Introspection/ListFindings \
             .tributary.v1.ListFindingsRequest -> \
             .tributary.v1.ListFindingsResponse",
            "/tributary.v1.Introspection/ListServices \
             .tributary.v1.ListServicesRequest -> \
             .tributary.v1.ListServicesResponse",
            "/tributary.v1.Introspection/ListViews \
             .tributary.v1.ListViewsRequest -> \
             .tributary.v1.ListViewsResponse",
            "/tributary.v1.Introspection/WatchClusters \
             .tributary.v1.ListClustersRequest -> \
             stream .tributary.v1.ListClustersResponse",
            "/tributary.v1.Introspection/WatchEndpoints \
             .tributary.v1.WatchEndpointsRequest -> \
             stream .tributary.v1.EndpointsSnapshot",
            "/tributary.v1.XdsIntrospection/ListXdsClients \
             .tributary.v1.ListXdsClientsRequest -> \
             .tributary.v1.ListXdsClientsResponse",
        ]
    );
}
