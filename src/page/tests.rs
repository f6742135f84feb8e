use super::*;

#[test]
fn a_query_is_read_and_what_is_odd_in_it_costs_nothing() {
    let wanted = Wanted::parse("authority=web.shop%3A80&x=1&ip=+10.0.0.1&zone=%FF&&=&ip");
    assert_eq!(wanted.authority, "web.shop:80");
    assert_eq!(wanted.ip, "10.0.0.1");
    assert_eq!(wanted.zone, "\u{fffd}");
    assert_eq!(
        Wanted::parse(&"authority=".repeat(1_000)),
        Wanted::default()
    );
}

#[test]
fn what_others_have_written_is_text_and_never_markup() {
    let hostile = "<script>alert(1)</script>\"'";
    let wanted = Wanted {
        authority: hostile.to_owned(),
        zone: hostile.to_owned(),
        ip: hostile.to_owned(),
    };
    let look = Look {
        service: Some(Err(hostile.to_owned())),
        ..Look::default()
    };
    let settings = Settings {
        cluster_domain: "cluster.local".to_owned(),
        staleness_ttl: None,
    };
    let regions = regions(&look, &wanted, &settings);
    let text = document(&regions, &wanted, &look).into_string();
    assert!(!text.contains("<script>alert"), "{text}");
    assert_eq!(text.matches("<script>").count(), 1);
    let event = event(&regions[3]);
    assert!(
        event.starts_with("data: {") && event.trim_end().lines().count() == 1,
        "{event}"
    );
}

#[test]
fn the_policy_allows_what_is_in_the_page_and_nothing_else() {
    let policy = content_policy();
    let policy = policy.to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
}
