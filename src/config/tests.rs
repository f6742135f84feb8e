use super::*;

fn parse(args: &[&str]) -> Result<Command, Stop> {
    let args = std::iter::once("tributary").chain(args.iter().copied());
    read(args.map(OsString::from))
}

fn serve(args: &[&str]) -> Config {
    let args: Vec<&str> = std::iter::once("serve")
        .chain(args.iter().copied())
        .collect();
    match parse(&args) {
        Ok(Command::Serve(config)) => *config,
        other => panic!("{args:?}: {other:?}"),
    }
}

fn endpoints(args: &[&str]) -> EndpointsQuery {
    let args: Vec<&str> = std::iter::once("endpoints")
        .chain(args.iter().copied())
        .collect();
    match parse(&args) {
        Ok(Command::Endpoints(query)) => *query,
        other => panic!("{args:?}: {other:?}"),
    }
}

fn profile(args: &[&str]) -> ProfileQuery {
    let args: Vec<&str> = std::iter::once("profile")
        .chain(args.iter().copied())
        .collect();
    match parse(&args) {
        Ok(Command::Profile(query)) => *query,
        other => panic!("{args:?}: {other:?}"),
    }
}

/// The line that a wrong command line ends in.
fn refusal(args: &[&str]) -> String {
    match parse(args) {
        Err(Stop::Usage(error)) => error.to_string(),
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn the_definition_is_consistent() {
    command().debug_assert();
}

#[test]
fn every_flag_has_an_environment_variable_named_after_it() {
    let command = command();
    for name in ["serve", "endpoints", "profile"] {
        let of = command.find_subcommand(name).unwrap();
        for arg in of.get_arguments().filter(|arg| arg.get_id() != "help") {
            let Some(long) = arg.get_long() else {
                assert!(arg.is_positional(), "{name}: {arg}");
                continue;
            };
            let expected = format!("TRIBUTARY_{}", long.replace('-', "_").to_uppercase());
            let variable = arg.get_env().unwrap_or_default();
            assert_eq!(variable, expected.as_str(), "{name} --{long}");
        }
    }
}

#[test]
fn a_token_may_have_the_old_form() {
    let query = profile(&["web.shop", "--context-token", "ns:bank"]);
    assert_eq!(query.context_token, "ns:bank");
}

#[test]
fn every_serve_flag_has_a_default() {
    let config = serve(&[]);
    assert_eq!(config.addr, Some(ListenAddr::EveryInterface(8086)));
    assert_eq!(config.metrics_addr, Some(ListenAddr::EveryInterface(9996)));
    assert_eq!(config.source, Source::Kubernetes { kubeconfig: None });
    assert_eq!(config.cluster_name.as_str(), "home");
    assert_eq!(config.controller_namespace.as_str(), "linkerd");
    assert_eq!(config.cluster_domain.as_str(), "cluster.local");
    assert_eq!(config.identity_trust_domain.as_str(), "cluster.local");
    assert!(config.default_opaque_ports.is_empty());
    assert_eq!(config.endpoint_kind, EndpointKind::EndpointSlice);
    assert!(config.enable_h2_upgrade && config.enable_ipv6 && !config.ext_endpoint_zone_weights);
    assert_eq!(config.outbound_transport_mode, TransportMode::Transparent);
    assert_eq!(config.meshed_http2_client_params, None);
    assert_eq!(config.startup_grace, Duration::from_secs(2));
    assert_eq!(config.drain_timeout, Duration::from_secs(10));
    assert_eq!(config.stream_stall_timeout, Duration::from_mins(5));
    assert_eq!(config.publish_interval, Duration::ZERO);
    assert_eq!(config.max_streams, 200_000);
    assert_eq!(
        (config.log.level, config.log.format),
        (LogLevel::Info, LogFormat::Plain)
    );
    assert_eq!(config.notices, []);
}

/// What Linkerd's chart passes to its destination controller, where nothing is configured otherwise.
const CHART_ARGUMENTS: [&str; 14] = [
    "destination",
    "-addr=:8086",
    "-controller-namespace=linkerd",
    "-outbound-transport-mode=transport-header",
    "-enable-h2-upgrade=true",
    "-log-level=info",
    "-log-format=plain",
    "-enable-endpoint-slices=true",
    "-cluster-domain=cluster.local",
    "-identity-trust-domain=cluster.local",
    "-default-opaque-ports=25,587,3306,4444,5432,6379,9300,11211",
    "-enable-ipv6=false",
    "-enable-pprof=false",
    r#"--meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}"#,
];

#[test]
fn the_arguments_of_linkerds_chart_mean_what_they_mean_there() {
    let Ok(Command::Serve(config)) = parse(&CHART_ARGUMENTS) else {
        panic!("they start a server");
    };
    assert_eq!(config.addr, Some(ListenAddr::EveryInterface(8086)));
    assert_eq!(config.metrics_addr, Some(ListenAddr::EveryInterface(9996)));
    assert_eq!(config.source, Source::Kubernetes { kubeconfig: None });
    assert_eq!(config.controller_namespace.as_str(), "linkerd");
    assert_eq!(
        config.outbound_transport_mode,
        TransportMode::TransportHeader
    );
    assert!(config.enable_h2_upgrade && !config.enable_ipv6 && !config.ext_endpoint_zone_weights);
    assert_eq!(
        (config.log.level, config.log.format),
        (LogLevel::Info, LogFormat::Plain)
    );
    assert_eq!(config.cluster_domain.as_str(), "cluster.local");
    assert_eq!(config.identity_trust_domain.as_str(), "cluster.local");
    for port in [25, 587, 3306, 4444, 5432, 6379, 9300, 11211] {
        assert!(config.default_opaque_ports.contains(port), "{port}");
    }
    assert!(!config.default_opaque_ports.contains(80));
    let http2 = config.meshed_http2_client_params.expect("parameters");
    let keep_alive = http2.keep_alive.expect("of keep-alive");
    assert_eq!(keep_alive.interval.map(|time| time.seconds), Some(10));
    assert_eq!(keep_alive.timeout.map(|time| time.seconds), Some(3));
    assert!(keep_alive.while_idle);
    assert_eq!(config.notices, [], "nothing of it is without effect");
}

#[test]
fn arguments_that_are_added_to_those_of_the_chart_win() {
    let added = [
        "-log-level=debug",
        "-ext-endpoint-zone-weights",
        "-enable-ipv6=true",
    ];
    let args: Vec<&str> = CHART_ARGUMENTS.into_iter().chain(added).collect();
    let Ok(Command::Serve(config)) = parse(&args) else {
        panic!("they start a server");
    };
    assert_eq!(config.log.level, LogLevel::Debug);
    assert!(config.ext_endpoint_zone_weights && config.enable_ipv6);
}

#[test]
fn booleans_may_have_a_value() {
    for (args, expected) in [
        (&["--enable-ipv6"][..], true),
        (&["--enable-ipv6=true"], true),
        (&["--enable-ipv6=false"], false),
        (&["--enable-ipv6=0"], false),
    ] {
        assert_eq!(serve(args).enable_ipv6, expected, "{args:?}");
    }
    assert!(serve(&["--ext-endpoint-zone-weights"]).ext_endpoint_zone_weights);
}

#[test]
fn endpoints_objects_are_read_where_slices_are_off() {
    let config = serve(&["--enable-endpoint-slices=false", "--enable-ipv6=false"]);
    assert_eq!(config.endpoint_kind, EndpointKind::Endpoints);
    let config = serve(&["--enable-endpoint-slices", "--enable-ipv6"]);
    assert_eq!(config.endpoint_kind, EndpointKind::EndpointSlice);
}

#[test]
fn empty_values_turn_off_or_mean_the_default() {
    assert_eq!(serve(&["--addr="]).addr, None);
    assert_eq!(serve(&["--metrics-addr", ""]).metrics_addr, None);
    assert_eq!(
        serve(&["--kubeconfig="]).source,
        Source::Kubernetes { kubeconfig: None }
    );
    assert_eq!(
        serve(&["--meshed-http2-client-params="]).meshed_http2_client_params,
        None
    );
}

#[test]
fn odd_values_are_noticed_and_replaced() {
    let config = serve(&["--cluster-domain="]);
    assert_eq!(config.cluster_domain.as_str(), "cluster.local");
    assert_eq!(config.notices, [Notice::ClusterDomainEmpty]);

    let config = serve(&["--cluster-domain=cluster.local."]);
    assert_eq!(config.cluster_domain.as_str(), "cluster.local");
    assert_eq!(config.notices, []);

    let config = serve(&["--cluster-domain=corp.example"]);
    assert_eq!(config.identity_trust_domain.as_str(), "cluster.local");
    let cluster_domain = "corp.example".into();
    assert_eq!(
        config.notices,
        [Notice::TrustDomainUnset { cluster_domain }]
    );

    let config = serve(&["--default-opaque-ports", "25,mysql,9000-9010,"]);
    assert!(config.default_opaque_ports.contains(9005));
    assert_eq!(config.notices, [Notice::OpaquePort("mysql".to_owned())]);

    let config = serve(&["--outbound-transport-mode=tunnel"]);
    assert_eq!(config.outbound_transport_mode, TransportMode::Transparent);
    assert_eq!(config.notices, [Notice::TransportMode("tunnel".to_owned())]);
}

#[test]
fn a_wrong_command_line_is_told_in_one_line() {
    for (args, expected) in [
        (&["serve", "--adr", ":1"][..], "--adr"),
        (&["serve", "--addr", "8086"], "expected :PORT"),
        (&["serve", "--startup-grace", "3s"], "must be below 3s"),
        (&["serve", "--startup-grace", "2"], "such as 2s, 500ms"),
        (
            &["serve", "--drain-timeout", "-2s"],
            "--drain-timeout: must not be negative, as -2s is",
        ),
        (
            &["serve", "--drain-timeout=-2s"],
            "must not be negative; expected a number and a unit",
        ),
        (&["serve", "--max-streams", "0"], "--max-streams"),
        (
            &["serve", "--max-streams", "-5"],
            "--max-streams: must not be negative",
        ),
        (
            &["serve", "--max-streams", "--addr=:1"],
            "a value is required for '--max-streams",
        ),
        (
            &["serve", "--max-streams=many"],
            "expected a whole number from 1 to 10000000",
        ),
        (
            &["serve", "--log-level", "loud"],
            "panic, fatal, error, warn, info, debug, trace",
        ),
        (&["serve", "--enable-ipv6=maybe"], "--enable-ipv6"),
        (
            &["serve", "--enable-ipv6", "false"],
            "write --enable-ipv6=false",
        ),
        (
            &["serve", "--enable-endpoint-slices=false"],
            "--enable-endpoint-slices: is off, and IPv6 is on, which needs EndpointSlices",
        ),
        (
            &[
                "destination",
                "-enable-endpoint-slices=false",
                "-enable-ipv6=true",
            ],
            "or IPv6 off with --enable-ipv6=false",
        ),
        (&["endpoints", "web.shop", "--watch", "true"], "'true'"),
        (
            &["serve", "--cluster-domain", "cluster local"],
            "--cluster-domain: \"cluster local\" is not a domain",
        ),
        (&["serve", "--cluster-domain=a..b"], "is not a domain"),
        (
            &["serve", "--meshed-http2-client-params", "[]"],
            "must be a JSON object",
        ),
        (
            &["serve", "--manifests", "/no/such/folder"],
            "/no/such/folder is not a folder",
        ),
        (
            &["serve", "--kubeconfig", "/no/such/file"],
            "/no/such/file is not a file",
        ),
        (
            &["serve", "--kubeconfig", "/a", "--manifests", "/b"],
            "leave one of them out",
        ),
        (
            &["serve", "--addr=", "--metrics-addr="],
            "every listener is turned off",
        ),
        (&["serve", "--cluster-name="], "must not be empty"),
        (&["sevre"], "serve"),
    ] {
        is_told_in_one_line(args, expected);
    }
}

#[test]
fn a_wrong_question_is_told_in_one_line() {
    for (args, expected) in [
        (&["endpoints"][..], "<AUTHORITY>"),
        (&["endpoints", "web"], "in which namespace?"),
        (
            &["endpoints", "web.shop", "--zone", "a", "--node", "b"],
            "--zone",
        ),
        (
            &["endpoints", "web.shop", "--context-token", "shop"],
            "expected a JSON object",
        ),
        (
            &["profile", "web.shop", "--context-token", "ns:a:b"],
            "or ns:NAMESPACE",
        ),
        (
            &["endpoints", "web.shop", "--addr", "localhost"],
            "expected HOST:PORT",
        ),
        (&["profile", "web"], "in which namespace?"),
        (&["profile", "10.0.0.1:0"], "AUTHORITY"),
        (&["completions", "ksh"], "bash"),
    ] {
        is_told_in_one_line(args, expected);
    }
}

fn is_told_in_one_line(args: &[&str], expected: &str) {
    let line = refusal(args);
    assert!(line.contains(expected), "{args:?}: {line}");
    assert!(!line.contains('\n'), "{args:?}: {line}");
}

#[test]
fn a_value_from_the_environment_is_named_by_its_variable() {
    let command = clap::Command::new("serve").arg(
        clap::Arg::new("kubeconfig")
            .long("kubeconfig")
            // A variable that every test has.
            .env("CARGO_MANIFEST_DIR"),
    );
    let name = |args: &[&str]| {
        let matches = command.clone().get_matches_from(args);
        Origins(&matches).name("--kubeconfig")
    };
    assert_eq!(name(&["serve"]), "TRIBUTARY_KUBECONFIG (environment)");
    assert_eq!(name(&["serve", "--kubeconfig=x"]), "--kubeconfig");
}

#[test]
fn help_and_version_are_answers() {
    for args in [
        &[][..],
        &["--help"],
        &["serve", "--help"],
        &["--version"],
        &["endpoints", "-h"],
    ] {
        assert!(matches!(parse(args), Err(Stop::Answer(_))), "{args:?}");
    }
}

#[test]
fn the_help_of_destination_is_in_its_own_syntax() {
    for args in [
        &["destination", "--help"][..],
        &["destination", "-help"],
        &["destination", "-addr=:1", "-h"],
    ] {
        let Err(Stop::Answer(text)) = parse(args) else {
            panic!("{args:?}");
        };
        assert!(
            text.contains("Usage: tributary destination [-FLAG=VALUE]..."),
            "{text}"
        );
        assert!(text.contains("\n  -outbound-transport-mode=MODE"), "{text}");
        assert!(text.contains("\n  -enable-ipv6=BOOL "), "{text}");
        assert!(!text.contains("--addr"), "{text}");
    }
}

#[test]
fn the_point_of_view_becomes_a_token_or_a_zone() {
    let query = endpoints(&["web.shop"]);
    assert_eq!((query.context_token.as_str(), query.zone), ("", None));
    let query = endpoints(&["web.shop", "--node", "n\"1"]);
    assert_eq!(query.context_token, r#"{"nodeName":"n\"1"}"#);
    let query = endpoints(&["web.shop", "--zone", ""]);
    assert_eq!(query.zone.as_deref(), Some(""));
}

#[test]
fn profiles_are_of_services_and_addresses() {
    for (args, expected) in [
        (&["web.shop"][..], "web.shop.svc.cluster.local:80"),
        (
            &["svc/web:81", "-n", "shop"],
            "web.shop.svc.cluster.local:81",
        ),
        (&["10.0.0.1:8080"], "10.0.0.1:8080"),
        (&["fd00::1"], "[fd00::1]:80"),
    ] {
        assert_eq!(profile(args).authority, expected);
    }
    let query = profile(&["web.shop", "--watch", "--context-token", r#"{"ns":"bank"}"#]);
    assert_eq!(query.context_token, r#"{"ns":"bank"}"#);
    assert_eq!(query.watch, Watch::Changes);
}

#[test]
fn servers_are_named_as_people_do() {
    for (addr, expected) in [
        ("localhost:8086", "localhost:8086"),
        (":18086", "127.0.0.1:18086"),
        ("http://10.0.0.1:8086/", "10.0.0.1:8086"),
        ("[::1]:8086", "[::1]:8086"),
    ] {
        assert_eq!(endpoints(&["web.shop", "--addr", addr]).server, expected);
    }
}

#[test]
fn the_writer_is_off_unless_it_is_asked_for_and_then_wants_a_name() {
    assert_eq!(serve(&[]).writer.mode, WriterMode::Off);
    let named = "--cluster-name=hub";
    for (args, mode) in [
        (&["--endpoint-slices=on", named][..], WriterMode::On),
        (&["--enable-endpointslice-sync", named], WriterMode::On),
        (&["--endpoint-slices=remove", named], WriterMode::Remove),
        (
            &["--endpoint-slices=on", "--endpoint-slices-dry-run", named],
            WriterMode::DryRun,
        ),
        (&["--endpoint-slices-dry-run"], WriterMode::Off),
    ] {
        assert_eq!(serve(args).writer.mode, mode, "{args:?}");
    }
    let refused = refusal(&["serve", "--endpoint-slices=on"]);
    assert!(
        refused.starts_with("--cluster-name: has to be given"),
        "{refused}"
    );
    let refused = refusal(&[
        "serve",
        "--endpoint-slices=on",
        "--cluster-name=Not_A_Label",
    ]);
    assert!(refused.contains("label value"), "{refused}");
    let both = [
        "serve",
        "--endpoint-slices=on",
        "--enable-endpoint-slices=false",
        "--enable-ipv6=false",
        named,
    ];
    let refused = refusal(&both);
    assert!(refused.contains("leave one of them out"), "{refused}");
    let refused = refusal(&["serve", "--endpoint-slices=sometimes"]);
    assert!(refused.contains("off, on or remove"), "{refused}");
}

#[test]
fn the_writer_commands_take_the_same_choices() {
    let args = [
        "writer",
        "plan",
        "--cluster-name=hub",
        "--endpoint-slices-hints=copy",
        "--wait=3s",
        "--service=shop/web",
    ];
    let Ok(Command::WriterPlan(plan)) = parse(&args) else {
        panic!("{args:?}");
    };
    assert_eq!(
        plan.config.writer.settings.hints,
        crate::model::copying::Hints::Copy
    );
    assert_eq!(plan.patience, Duration::from_secs(3));
    let service = plan.service.map(|service| service.to_string());
    assert_eq!(service.as_deref(), Some("shop/web"));
    for wrong in ["web", "/web", "shop/"] {
        let refused = refusal(&["writer", "plan", "--cluster-name=hub", "--service", wrong]);
        assert!(refused.contains("NAMESPACE/NAME"), "{refused}");
    }
    let Ok(Command::WriterCleanup(cleanup)) = parse(&["writer", "cleanup", "--yes"]) else {
        panic!("cleanup");
    };
    assert_eq!(cleanup.confirmation, Confirmation::Given);
    let refused = refusal(&["writer", "plan"]);
    assert!(refused.starts_with("--cluster-name"), "{refused}");
}

#[test]
fn slices_of_external_workloads_are_written_if_asked_for_and_in_the_controllers_place() {
    let written = |args: &[&str]| match parse(args) {
        Ok(Command::Serve(config)) => config.writer.writes_external_workloads(),
        _ => panic!("{args:?}"),
    };
    for (args, expected) in [
        (&["serve"][..], false),
        (&["serve", "--external-workload-slices"], true),
        (&["serve", "--external-workload-slices=false"], false),
        (&["destination"], true),
        (
            &[
                "destination",
                "-enable-endpoint-slices=false",
                "-enable-ipv6=false",
            ],
            false,
        ),
    ] {
        assert_eq!(written(args), expected, "{args:?}");
    }
    for more in [
        &["--manifests=/nowhere"][..],
        &["--enable-endpoint-slices=false", "--enable-ipv6=false"],
    ] {
        let args = [&["serve", "--external-workload-slices"], more].concat();
        let refused = refusal(&args);
        assert!(
            refused.starts_with("--external-workload-slices"),
            "{refused}"
        );
    }
}
