use std::fmt::Write as _;

use super::*;

/// A `spec` in YAML in, what is understood of it out: parts in order, then where the warnings are.
fn check(spec: &str, expected: &str) {
    let value: Value = serde_saphyr::from_str(spec).expect("YAML");
    let mut warnings = Vec::new();
    let mut got = describe(&facts(&value, &mut warnings));
    for warning in warnings {
        let Warning::ProfilePart { part, .. } = warning else {
            panic!("{warning}");
        };
        write!(got, " !{part}").expect("text");
    }
    assert_eq!(got.trim_start(), expected, "{spec}");
}

/// A route with this condition, in short.
fn check_condition(condition: &str, expected: &str) {
    check(
        &format!("{{routes: [{{name: r, condition: {condition}}}]}}"),
        expected,
    );
}

pub(in crate::sources::k8s::convert) fn describe(facts: &ProfileFacts) -> String {
    let mut text = String::new();
    for route in &facts.routes {
        write!(text, " {}: {}", route.name, request(&route.condition)).expect("text");
        for class in &route.classes {
            let verdict = if class.failure { "fails" } else { "succeeds" };
            write!(text, ", {} {verdict}", response(&class.condition)).expect("text");
        }
        if route.retryable {
            text.push_str(", retryable");
        }
        if let Some(timeout) = route.timeout {
            write!(text, ", within {:?}", timeout.parts()).expect("text");
        }
        text.push(';');
    }
    if let Some(budget) = facts.retry_budget {
        let (ttl, _) = budget.ttl.parts();
        write!(
            text,
            " budget {} {} {ttl}s",
            budget.ratio, budget.min_per_second
        )
        .expect("text");
    }
    for to in &facts.overrides {
        write!(text, " {}={}", to.authority, to.weight).expect("text");
    }
    text
}

fn request(condition: &RequestMatch) -> String {
    let list = |all: &[RequestMatch]| all.iter().map(request).collect::<Vec<_>>().join(" ");
    match condition {
        RequestMatch::All(all) => format!("all({})", list(all)),
        RequestMatch::Any(any) => format!("any({})", list(any)),
        RequestMatch::Not(one) => format!("not {}", request(one)),
        RequestMatch::Path(regex) => regex.to_string(),
        RequestMatch::Method(method) => method.as_str().to_owned(),
    }
}

fn response(condition: &ResponseMatch) -> String {
    let list = |all: &[ResponseMatch]| all.iter().map(response).collect::<Vec<_>>().join(" ");
    match condition {
        ResponseMatch::All(all) => format!("all({})", list(all)),
        ResponseMatch::Any(any) => format!("any({})", list(any)),
        ResponseMatch::Not(one) => format!("not {}", response(one)),
        ResponseMatch::Status(StatusRange { min, max }) => format!("{min}-{max}"),
    }
}

#[test]
fn the_fields_of_a_condition_all_have_to_hold_in_a_fixed_order() {
    check_condition("{pathRegex: /a}", "r: /a;");
    check_condition("{method: get}", "r: GET;");
    check_condition(
        "{pathRegex: /a, not: {method: PUT}, method: get, any: [], all: [{method: HEAD}]}",
        "r: all(all(HEAD) any() GET not PUT /a);",
    );
    check_condition("{all: []}", "r: all();");
}

#[test]
fn not_may_be_a_list_of_one() {
    check_condition("{not: [{method: GET}]}", "r: not GET;");
    check_condition("{all: [{not: {pathRegex: /a}}]}", "r: all(not /a);");
    let bad = "!spec.routes[0].condition";
    check_condition("{not: []}", bad);
    check_condition("{not: [{method: GET}, {method: PUT}]}", bad);
}

#[test]
fn a_bad_condition_costs_its_route_only() {
    for condition in [
        "null",
        "{}",
        "[]",
        "x",
        "{pathRegex: ''}",
        "{method: 5}",
        "{other: x}",
        "{all: [null]}",
        "{all: {}}",
        "{any: [{}]}",
        "{not: {}}",
        "{pathRegex: /a, not: {}}",
    ] {
        check(
            &format!(
                "{{routes: [{{name: good, condition: {{pathRegex: /a}}}}, {{condition: {condition}}}]}}"
            ),
            "good: /a; !spec.routes[1].condition",
        );
    }
    check("{routes: [x, null]}", "!spec.routes[0]");
    check("{routes: {}}", "!spec.routes");
    check("[]", "!spec");
    check("null", "");
    check("{opaquePorts: ['80'], routes: null}", "");
}

#[test]
fn conditions_have_an_end() {
    let nested = |depth: usize| {
        format!(
            "{}{{method: GET}}{}",
            "{not: ".repeat(depth),
            "}".repeat(depth)
        )
    };
    check_condition(&nested(31), &format!("r: {}GET;", "not ".repeat(31)));
    check_condition(&nested(32), "!spec.routes[0].condition");
}

#[test]
fn response_classes_are_ranges_of_status_codes() {
    let check_class = |condition: &str, expected: &str| {
        check(
            &format!(
                "{{routes: [{{name: r, condition: {{method: GET}}, responseClasses: [{{condition: {condition}, isFailure: true}}]}}]}}"
            ),
            expected,
        );
    };
    check_class("{status: {min: 500, max: 599}}", "r: GET, 500-599 fails;");
    check_class("{status: {min: 500}}", "r: GET, 500-0 fails;");
    check_class("{status: {}}", "r: GET, 0-0 fails;");
    check_class(
        "{not: {status: {max: 200}}, status: {min: 100, max: 100}}",
        "r: GET, all(100-100 not 0-200) fails;",
    );
    let bad = "r: GET; !spec.routes[0].responseClasses[0].condition";
    for condition in [
        "{status: {min: 99}}",
        "{status: {max: 600}}",
        "{status: {min: -1}}",
        "{status: {min: 500, max: 400}}",
        "{status: {min: x}}",
        "{status: 5}",
        "{}",
        "null",
    ] {
        check_class(condition, bad);
    }
}

#[test]
fn routes_have_a_name_and_settings() {
    check(
        "{routes: [{name: a, condition: {method: GET}, isRetryable: true, timeout: 1500ms}]}",
        "a: GET, retryable, within (1, 500000000);",
    );
    for zero in ["0s", "'0'", "''", "null"] {
        let yaml =
            format!("{{routes: [{{name: a, condition: {{method: GET}}, timeout: {zero}}}]}}");
        check(&yaml, "a: GET;");
    }
    check(
        "{routes: [{name: 5, condition: {method: GET}, isRetryable: 1, timeout: 1d}]}",
        ": GET; !spec.routes[0].timeout",
    );
}

#[test]
fn a_bad_budget_is_the_default_one() {
    check(
        "{retryBudget: {retryRatio: 0.5, minRetriesPerSecond: 3, ttl: 20s}}",
        "budget 0.5 3 20s",
    );
    check("{retryBudget: {ttl: 1m}}", "budget 0 0 60s");
    check("{retryBudget: null}", "");
    for budget in [
        "{}",
        "{ttl: ''}",
        "{ttl: 10}",
        "{ttl: 10s, minRetriesPerSecond: -1}",
        "{ttl: 10s, retryRatio: x}",
        "[]",
    ] {
        check(&format!("{{retryBudget: {budget}}}"), "!spec.retryBudget");
    }
}

#[test]
fn overrides_have_an_authority_and_a_weight() {
    check(
        "{dstOverrides: [{authority: a, weight: 500m}, {authority: b, weight: 2}, {authority: c, weight: 0.25}, {authority: d}]}",
        "a=5000 b=20000 c=2500 d=0",
    );
    check(
        "{dstOverrides: [{authority: a, weight: -1}, {authority: b, weight: 9E}]}",
        "a=0 b=4294967295",
    );
    check(
        "{dstOverrides: [{weight: 1}, {authority: '', weight: 1}, {authority: a, weight: x}, {authority: b, weight: []}, {authority: c, weight: 1}]}",
        "c=10000 !spec.dstOverrides[0] !spec.dstOverrides[1] !spec.dstOverrides[2] !spec.dstOverrides[3]",
    );
}
