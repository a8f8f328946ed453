//! Shares: what is read, and what is refused.

use std::time::{Duration, Instant};

use multicluster_types::{Owner, Priority, Quantity, ShareTerms, ShareWeight, Shares, Span};
use proptest::prelude::*;

use super::{NO_ENV, assert_told, centos, error, errors, line, ok, parse};

fn owner(name: &str) -> Owner {
    Owner::new(name).unwrap()
}

#[test]
fn owners_and_groups_are_read() {
    assert_eq!(ok(&centos("")).settings.shares, Shares::default());
    let shares = ok(&centos(
        "shares:
  half_life: 2d
  owners:
    research: { weight: 3, members: [ann, bob@example.com], limit: { CPU: 64, GPU: 8 }, max_queued: 20000, preempts: true }
    trading:  { weight: 0.5, max_priority: -10, limit: { memory: 256GiB } }
    007:
",
    ))
    .settings
    .shares;
    assert_eq!(shares.half_life(), Span::minutes(2 * 24 * 60));
    let research = shares.terms(&owner("research")).unwrap();
    assert_eq!(research.weight, ShareWeight::new(3.0).unwrap());
    assert_eq!(research.members, [owner("ann"), owner("bob@example.com")]);
    let limit = &research.limit;
    assert_eq!((limit.cpu.as_f64(), limit.gpu.as_f64(), limit.memory), (64.0, 8.0, Quantity::ZERO));
    assert_eq!((research.max_queued, research.max_priority, research.preempts), (Some(20_000), None, true));
    let trading = shares.terms(&owner("trading")).unwrap();
    assert_eq!((trading.weight.parts(), trading.max_priority), (500, Some(Priority(-10))));
    assert_eq!((trading.limit.memory.as_f64(), trading.preempts), ((256_u64 << 30) as f64, false));
    assert_eq!(shares.terms(&owner("007")), Some(&ShareTerms::default()));
    assert_eq!(shares.sharer_of(&owner("bob@example.com")).as_str(), "research");
    assert_eq!(shares.sharer_of(&owner("eve")).as_str(), "eve");
}

#[test]
fn what_is_left_out_of_shares_has_a_default() {
    for empty in
        ["shares:\n", "shares: {}\n", "shares: {owners: }\n", "shares: {half_life: 7d, owners: {}}\n"]
    {
        assert_eq!(ok(&centos(empty)).settings.shares, Shares::default(), "{empty}");
    }
    let shares = ok(&centos("shares: {owners: {ann: {members: , limit: {}}}}\n")).settings.shares;
    assert_eq!(shares.terms(&owner("ann")), Some(&ShareTerms::default()));
    // A person may lead a group of the same name.
    let shares = ok(&centos("shares: {owners: {ann: {members: [ann, bob]}}}\n")).settings.shares;
    assert_eq!(shares.sharer_of(&owner("bob")), &owner("ann"));
}

#[test]
fn shares_that_make_no_sense_are_told() {
    const EXAMPLE: &str =
        "write {half_life: 7d, owners: {research: {weight: 3, members: [ann, bob]}, trading: {weight: 1}}}";
    const HALF_LIFE: &str = "write how long it takes until use counts half, such as 7d";
    for (shares, message, hint) in [
        ("yes", "5:9 shares cannot be true or false", EXAMPLE),
        ("[ann]", "5:9 shares cannot be a list", EXAMPLE),
        ("{half_life: 0}", "5:21 half_life must be longer than 0", HALF_LIFE),
        ("{half_life: 0.1ms}", "5:21 half_life must be longer than 0", HALF_LIFE),
        (
            "{half_life: soon}",
            "5:21 \"soon\" is not a length of time",
            "write 40s, 500ms, 5m, 1.5h, 7d, or a number of seconds",
        ),
        ("{half_life: }", "5:10 half_life has no value", HALF_LIFE),
        ("{half_life: [7d]}", "5:21 half_life cannot be a list", HALF_LIFE),
        ("{halflife: 7d}", "5:10 unknown key halflife in `shares:`", "did you mean half_life?"),
        ("{ann: {weight: 2}}", "5:10 unknown key ann in `shares:`", "known keys are half_life, owners"),
        (
            "{owners: [ann]}",
            "5:18 owners cannot be a list",
            "write a mapping from names: {research: {weight: 3, members: [ann, bob]}}",
        ),
    ] {
        assert_told(&centos(&format!("shares: {shares}\n")), message, hint);
    }
}

#[test]
fn terms_that_make_no_sense_are_told() {
    const OWNER: &str = "write a mapping: {weight: 3, members: [ann, bob]}";
    const WEIGHT: &str = "give a number above 0, up to 1000000; 1 is the default";
    const MEMBERS: &str = "write a list of owners: [ann, bob]";
    const LIMIT: &str = "write {CPU: 64, GPU: 8, memory: 256GiB}, or leave it out for no limit";
    const AMOUNT: &str = "write a number, or for memory a size such as \"16GiB\"";
    const NOTHING: &str = "leave it out for no limit; to keep an owner out, revoke its token, cordon clusters, or filter by owner in a policy";
    const QUEUED: &str = "give a whole number from 1, or leave it out for no limit";
    const PRIORITY: &str = "give a whole number such as 100, or leave it out";
    for (terms, message, hint) in [
        ("3", "7:8 a cannot be a number", OWNER),
        ("{weight: 0}", "7:17 weight 0 is not usable", WEIGHT),
        ("{weight: -1}", "7:17 weight -1 is not usable", WEIGHT),
        ("{weight: .nan}", "7:17 weight NaN is not usable", WEIGHT),
        ("{weight: 1e9}", "7:17 weight 1000000000 is not usable", WEIGHT),
        ("{weight: much}", "7:17 weight is not a number: \"much\"", WEIGHT),
        ("{weight: }", "7:9 weight has no value", WEIGHT),
        ("{wieght: 1}", "7:9 unknown key wieght in an owner of `shares:`", "did you mean weight?"),
        ("{members: ann}", "7:18 members cannot be text", MEMBERS),
        ("{members: [[ann]]}", "7:19 members cannot be a list", MEMBERS),
        ("{members: [~]}", "7:9 members has no value", MEMBERS),
        ("{limit: 64}", "7:16 limit cannot be a number", LIMIT),
        ("{limit: {CPU: 0}}", "7:22 a limit of 0 CPU is not possible", NOTHING),
        ("{limit: {CPU: many}}", "7:22 \"many\" is not an amount", AMOUNT),
        ("{limit: {GPU: -1}}", "7:22 -1 is negative", "amounts start at 0"),
        ("{limit: {CPU: }}", "7:17 CPU has no value", LIMIT),
        (
            "{limit: {memory: 256}}",
            "7:25 a limit of 256 bytes of memory would let no work start",
            "write it with a unit: 256GiB",
        ),
        ("{limit: {cpu: 64}}", "7:17 there are no limits for cpu", "did you mean CPU?"),
        ("{limit: {Memory: 1GiB}}", "7:17 there are no limits for Memory", "did you mean memory?"),
        ("{limit: {TPU: 4}}", "7:17 there are no limits for TPU", "known keys are CPU, GPU, memory"),
        ("{limit: {memroy: 1GiB}}", "7:17 there are no limits for memroy", "did you mean memory?"),
        ("{max_queued: 0}", "7:21 with max_queued 0 all its work would be refused", NOTHING),
        ("{max_queued: -1}", "7:21 max_queued cannot be -1", QUEUED),
        ("{max_queued: 1.5}", "7:21 max_queued cannot be 1.5", QUEUED),
        ("{max_queued: [1]}", "7:21 max_queued cannot be a list", QUEUED),
        ("{max_queued: unlimited}", "7:21 max_queued cannot be \"unlimited\"", QUEUED),
        ("{max_priority: high}", "7:23 max_priority cannot be \"high\"", PRIORITY),
        ("{max_priority: 3000000000}", "7:23 max_priority cannot be 3000000000", PRIORITY),
        ("{preempts: 'yes'}", "7:19 preempts cannot be text", "write true or false, without quotes"),
    ] {
        assert_told(&centos(&format!("shares:\n  owners:\n    a: {terms}\n")), message, hint);
    }
}

#[test]
fn a_name_that_no_owner_can_have_is_told() {
    for shares in
        ["a b: {weight: 2}", "'': {weight: 2}", "research: {members: [a b]}", "research: {members: ['']}"]
    {
        let error = error(&centos(&format!("shares:\n  owners:\n    {shares}\n")));
        assert!(error.message.starts_with("owner "), "{}", error.message);
        assert_eq!(line(&error), 7);
    }
    let long = error(&centos(&format!("shares: {{owners: {{{}: }}}}\n", "x".repeat(255))));
    assert!(long.to_string().len() < 1000 && long.message.contains("at most 254"), "{long}");
}

#[test]
fn an_owner_in_two_places_is_told_with_both() {
    let told = |owners: &str| {
        let error = error(&centos(&format!("shares:\n  owners:\n{owners}")));
        let (_, first) = error.related.clone().unwrap();
        (format!("{}:{} {}", line(&error), error.place.unwrap().column, error.message), first.line)
    };
    assert_eq!(
        told("    research: {members: [ann, bob]}\n    trading: {members: [eve, bob]}\n"),
        ("8:30 bob is in two groups, research and trading".to_owned(), 7)
    );
    assert_eq!(
        told("    research: {members: [ann, bob]}\n    bob: {weight: 2}\n"),
        ("8:5 bob is named, and is a member of research".to_owned(), 7)
    );
    assert_eq!(
        told("    bob: {weight: 2}\n    research: {members: [ann, bob]}\n"),
        ("8:31 bob is named, and is a member of research".to_owned(), 7)
    );
    assert_eq!(
        told("    research:\n      members:\n        - ann\n        - ann\n"),
        ("10:11 ann is listed twice in research".to_owned(), 9)
    );
    assert_eq!(
        told("    research: {weight: 1}\n    research: {weight: 2}\n"),
        ("8:5 the key research is given twice".to_owned(), 7)
    );
}

#[test]
fn all_mistakes_of_shares_are_told_at_once() {
    let text = centos(
        "shares:
  half_life: 0
  owners:
    research: {weight: 0, members: [ann]}
    trading: {members: [ann], limit: {GPU: 0, TPU: 1}}
",
    );
    insta::assert_snapshot!(crate::parse(&text, "cluster.yaml", NO_ENV).unwrap_err(), @"
    cluster.yaml:6:14: half_life must be longer than 0
        6 |   half_life: 0
          |              ^
      hint: write how long it takes until use counts half, such as 7d

    cluster.yaml:8:24: weight 0 is not usable
        8 |     research: {weight: 0, members: [ann]}
          |                        ^
      hint: give a number above 0, up to 1000000; 1 is the default

    cluster.yaml:9:25: ann is in two groups, research and trading
        9 |     trading: {members: [ann] …
          |                         ^^^
      first here, cluster.yaml:8:37
        8 |     research: {weight: 0, members: [ann] …
          |                                     ^^^
      hint: an owner belongs to one group: remove one of the two

    cluster.yaml:9:44: a limit of 0 GPU is not possible
        9 |     trading: {members: [ann], limit: {GPU: 0, TPU: 1}}
          |                                            ^
      hint: leave it out for no limit; to keep an owner out, revoke its token, cordon clusters, or filter by owner in a policy

    cluster.yaml:9:47: there are no limits for TPU
        9 |     trading: {members: [ann], limit: {GPU: 0, TPU: …
          |                                               ^^^
      hint: known keys are CPU, GPU, memory
    ");
    assert_eq!(errors(&text).len(), 5);
}

#[test]
fn the_environment_has_no_shares() {
    let env = [("SCHEDULER_SHARES".to_owned(), "{}".to_owned())];
    let config = crate::parse(&centos(""), "cluster.yaml", env).unwrap();
    assert_eq!(config.warnings[0].message, "shares are a mapping");
}

#[test]
fn ten_thousand_owners_are_enough() {
    let owners =
        |count: usize| -> String { (0..count).map(|n| format!("    o{n}: {{weight: 2}}\n")).collect() };
    let of = |count| centos(&format!("shares:\n  owners:\n{}", owners(count)));
    let start = Instant::now();
    assert_eq!(ok(&of(Shares::MAX)).settings.shares.named().count(), Shares::MAX);
    assert_told(
        &of(Shares::MAX + 1),
        "6:3 10001 owners, groups and members, at most 10000 are allowed",
        "leave out owners with a weight of 1 and no limits",
    );
    let members: String = (0..Shares::MAX).map(|n| format!("m{n}, ")).collect();
    assert_told(
        &centos(&format!("shares:\n  owners:\n    all: {{members: [{members}]}}\n")),
        "6:3 10001 owners, groups and members, at most 10000 are allowed",
        "leave out owners with a weight of 1 and no limits",
    );
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

proptest! {
    /// Whatever is accepted is legal, and is what the file says.
    #[test]
    fn any_shares_are_read_or_refused(
        half_life in "[0-9]{1,4}(s|m|h|d)?|\\PC{0,10}",
        names in prop::collection::vec("[a-d]|\\PC{0,5}", 0..5),
        value in prop_oneof![
            Just("3".to_owned()), Just("[a, b]".to_owned()), Just("{CPU: 4}".to_owned()),
            any::<f64>().prop_map(|number| number.to_string()), "\\PC{0,12}",
        ],
        key in prop::sample::select(vec!["weight", "members", "limit", "max_queued", "max_priority", "preempts"]),
    ) {
        let owners: String = names.iter().map(|name| format!("    {name}: {{{key}: {value}}}\n")).collect();
        let text = centos(&format!("shares:\n  half_life: {half_life}\n  owners:\n{owners}"));
        match parse(&text) {
            Ok(config) => {
                let shares = config.settings.shares;
                prop_assert!(shares.half_life() > Span::ZERO);
                prop_assert!(shares.named().all(|(_, terms)| terms.weight.parts() > 0));
            }
            Err(error) => prop_assert!(!error.diagnostics.is_empty() && error.to_string().len() < 20_000),
        }
    }
}
