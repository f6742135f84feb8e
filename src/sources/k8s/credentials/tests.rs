use super::*;

const TOKEN: &str = "token: s3cr3t-t0ken";

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: c, \
         contexts: [{{name: c, context: {{cluster: north, user: ops}}}}], \
         clusters: [{{name: other}}, {{name: north, cluster: {{{cluster}}}}}], \
         users: [{{name: ops, user: {{{user}}}}}]}}"
    )
}

fn check(text: &str, expected: &str) {
    let got = match Credentials::parse(text.as_bytes()) {
        Ok(credentials) => format!("{} accepted", credentials.config().cluster_url),
        Err(error) => error.to_string(),
    };
    assert!(got.contains(expected), "{text}: {got}");
    assert!(!got.contains("s3cr3t"), "{got}");
}

fn check_user(user: &str, expected: &str) {
    check(
        &kubeconfig("server: 'https://10.0.0.1:6443'", user),
        expected,
    );
}

fn check_cluster(cluster: &str, expected: &str) {
    check(&kubeconfig(cluster, TOKEN), expected);
}

#[test]
fn tokens_and_certificates_are_accepted() {
    check_user(TOKEN, "https://10.0.0.1:6443/ accepted");
    check_user("token: ' s3cr3t-t0ken '", "accepted");
    check_user(
        "client-certificate-data: YQ==, client-key-data: YQ==",
        "accepted",
    );
    check_user(
        "client-certificate-data: YQ==",
        "client-key-data of user \"ops\" is missing",
    );
    check_user(
        "client-certificate-data: YQ==, client-key-data: '%'",
        "not in base64",
    );
    check_user(
        "token: 's3cr3t t0ken'",
        "token of user \"ops\" has characters",
    );
    check_user("", "neither a token nor a client certificate");
    check_user("token: ''", "neither a token nor a client certificate");
}

#[test]
fn nothing_runs_and_no_file_is_read() {
    check_user(
        "exec: {command: sh}",
        "user \"ops\" uses exec; only tokens and client certificates",
    );
    check_user(&format!("{TOKEN}, exec: {{command: sh}}"), "uses exec");
    check_user("auth-provider: {name: gcp}", "uses auth-provider");
    check_user(
        "username: a, password: s3cr3t",
        "uses a username and password",
    );
    check_user(
        "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
        "uses tokenFile",
    );
    check_user(
        "client-certificate: /a, client-key: /b",
        "client-certificate of user \"ops\" names a file",
    );
    check_user(&format!("{TOKEN}, as: admin"), "uses impersonation");
    check_cluster(
        "server: 'https://a', certificate-authority: /etc/ca.crt",
        "certificate-authority of cluster \"north\" names a file",
    );
}

#[test]
fn servers_are_web_addresses() {
    check_cluster(
        "server: 'https://api.north.example:443', tls-server-name: kubernetes",
        "accepted",
    );
    check_cluster(
        "server: 'http://10.0.0.1', proxy-url: 'http://proxy:3128'",
        "accepted",
    );
    check_cluster(
        "server: 'https://10.0.0.1', insecure-skip-tls-verify: true",
        "accepted",
    );
    check_cluster("", "has no server");
    check_cluster(
        "server: 'https://user:s3cr3t@a'",
        "not an http or https URL",
    );
    check_cluster("server: '/etc/passwd'", "not an http or https URL");
    check_cluster("server: 'unix:///run/x'", "not an http or https URL");
    check_cluster(
        "server: 'https://a', proxy-url: 'socks5://p'",
        "proxy-url of cluster \"north\"",
    );
    check_cluster(
        "server: 'https://a', tls-server-name: 'not a name'",
        "tls-server-name of cluster",
    );
    check_cluster(
        "server: 'https://a', certificate-authority-data: '%%'",
        "certificate-authority-data",
    );
}

#[test]
fn names_must_lead_somewhere() {
    check("{}", "no current-context");
    check(
        "{current-context: x}",
        "names context \"x\", which it does not have",
    );
    check(
        "{current-context: x, contexts: [{name: x}]}",
        "which it does not have",
    );
    check(
        "{current-context: x, contexts: [{name: x, context: {}}]}",
        "names no cluster that it has",
    );
    check(
        "{current-context: x, contexts: [{name: x, context: {cluster: y}}], clusters: null}",
        "names no cluster",
    );
    check(
        "{current-context: x, contexts: [{name: x, context: {cluster: y, user: z}}], clusters: [{name: y, cluster: {server: 'https://a'}}]}",
        "names no user that it has",
    );
}

#[test]
fn what_is_no_kubeconfig_is_said_to_be_none() {
    check(
        "users: [{user: {token: [s3cr3t]}}]",
        "not YAML with the structure of a kubeconfig (line 1",
    );
    check("just text", "not YAML with the structure");
    check("- s3cr3t: [", "not YAML");
    assert!(matches!(
        Credentials::parse(b"\xff"),
        Err(CredentialsError::Utf8)
    ));
    assert!(matches!(
        Credentials::from_base64("%%%"),
        Err(CredentialsError::Base64)
    ));
    let long = vec![b' '; KUBECONFIG_BYTES_MAX + 1];
    assert!(matches!(
        Credentials::parse(&long),
        Err(CredentialsError::TooLong)
    ));
    assert!(matches!(
        Credentials::from_base64(&"YQ==".repeat(300_000)),
        Err(CredentialsError::TooLong)
    ));
}

#[test]
fn credentials_are_not_printed() {
    let text = kubeconfig("server: 'https://a'", TOKEN);
    let credentials = Credentials::parse(text.as_bytes()).expect("credentials");
    assert!(!format!("{credentials:?}").contains("s3cr3t"));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        drop(Credentials::parse(&bytes));
        drop(Credentials::from_base64(&String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn a_damaged_kubeconfig_is_an_answer_or_an_error(at in 0_usize..300, with in "\\PC{0,4}") {
        let mut text = kubeconfig("server: 'https://a', certificate-authority-data: YQ==", TOKEN);
        let at = at % text.len();
        text.replace_range(at..=at, &with);
        if let Err(error) = Credentials::parse(text.as_bytes()) {
            proptest::prop_assert!(!error.to_string().contains("s3cr3t"));
        }
    }
}
