use multicluster_types::{Kind, Tags};

use super::*;

fn built_in(name: &str) -> PolicySpec {
    PolicySpec { name: name.into(), rule: PolicyRule::BuiltIn { weight: 1.0 } }
}

fn score(expression: &str) -> PolicySpec {
    PolicySpec { name: "mine".into(), rule: PolicyRule::Score { expression: expression.into(), weight: 1.0 } }
}

fn filter(expression: &str) -> PolicySpec {
    PolicySpec { name: "mine".into(), rule: PolicyRule::Filter { expression: expression.into() } }
}

/// Scores the sample cluster, changed by `change`, for a job asking for `demand`.
fn scored(policy: &str, demand: &[(&str, f64)], change: fn(&mut Sample, &mut u32)) -> f32 {
    let (mut sample, mut live) = (Sample::new(), 0);
    change(&mut sample, &mut live);
    let work =
        Work { demand: Resources::from_amounts(demand.iter().copied()).unwrap(), ..Work::new(Kind::Job) };
    let policies = Policies::compile(&[built_in(policy)]).unwrap();
    policies.score(&work, &Facts { live, ..sample.facts() })
}

#[test]
fn score_is_what_would_be_free_after_placement() {
    let near = |a: f32, b: f32| (a - b).abs() < 1e-6;
    assert!(near(scored("score", &[], |_, _| {}), 0.75));
    assert!(near(scored("score", &[("CPU", 12.0)], |_, _| {}), 0.375));
    assert!(near(scored("pack", &[("CPU", 12.0)], |_, _| {}), 0.625));
    let promised = scored("score", &[], |s, _| s.free.cpu = Quantity::ZERO);
    assert!(near(promised, 0.375), "what is promised is not free: {promised}");
}

#[test]
fn idle_gpus_do_not_attract_cpu_work() {
    let without = |s: &mut Sample, _: &mut u32| {
        (s.snapshot.total.gpu, s.snapshot.used.gpu) = (Quantity::ZERO, Quantity::ZERO)
    };
    assert_eq!(scored("score", &[("CPU", 1.0)], |_, _| {}), scored("score", &[("CPU", 1.0)], without));
}

#[test]
fn spread_prefers_the_cluster_with_less_of_our_work() {
    assert!(scored("spread", &[], |_, live| *live = 1) > scored("spread", &[], |_, live| *live = 2));
}

#[test]
fn whole_nodes_prefers_the_rest_of_a_node_in_use_to_a_part_of_a_free_one() {
    fn node(s: &mut Sample, free: f64) {
        let cpus = |cpus| Resources::from_amounts([("CPU", cpus)]).unwrap();
        let shape = multicluster_types::NodeShape {
            total: cpus(8.0),
            free: cpus(free),
            count: 1,
            ..Default::default()
        };
        s.snapshot.shapes = vec![shape];
    }
    let two = [("CPU", 2.0)];
    let exact = scored("whole_nodes", &two, |s, _| node(s, 2.0));
    let rest = scored("whole_nodes", &two, |s, _| node(s, 4.0));
    let free = scored("whole_nodes", &two, |s, _| node(s, 8.0));
    assert!(exact == rest && rest > free, "{exact} {rest} {free}");
    let whole = scored("whole_nodes", &[("CPU", 8.0)], |s, _| node(s, 8.0));
    assert!(whole > free && whole < rest, "a whole node is not broken up: {whole}");
    assert_eq!(scored("whole_nodes", &[], |s, _| node(s, 8.0)), 0.5, "what needs no node breaks none");
}

#[test]
fn expressions_see_the_facts() {
    let policies =
        Policies::compile(&[score("free_cpu / total_cpu"), filter_named("os", "'linux' in tags")]).unwrap();
    let (sample, work) = (Sample::new(), Sample::work());
    assert_eq!(policies.score(&work, &sample.facts()), 0.75);
    assert_eq!(policies.reject(&work, &sample.facts()), None);
    let mut mac = Sample::new();
    mac.spec.tags = Tags::new(["macos"]).unwrap();
    assert_eq!(policies.reject(&work, &mac.facts()), Some(Reason::Policy { name: "os".into() }));
}

fn filter_named(name: &str, expression: &str) -> PolicySpec {
    PolicySpec { name: name.into(), ..filter(expression) }
}

#[test]
fn every_name_of_an_expression_can_be_used() {
    for name in
        ["weight", "nodes", "running", "total_cpu", "total_gpu", "total_memory", "free_cpu", "free_gpu"]
    {
        check(&score(name)).unwrap();
    }
    for name in ["free_memory", "cpu", "gpu", "memory", "priority"] {
        check(&score(name)).unwrap();
    }
    for name in ["load_cpu", "load_gpu", "load_memory", "queued", "oldest_wait"] {
        check(&score(name)).unwrap();
    }
    for text in ["free['disk'] / total['disk']", "demand['disk']", "free.CPU / total.CPU"] {
        check(&score(text)).unwrap();
    }
    check(&filter("prefer || cluster == 'mac' || kind == 'job' || 'a' in work_tags || 'a' in tags")).unwrap();
    check(&filter("ray_version.startsWith('2.') && python_version != '' && owner == ''")).unwrap();
    check(&filter("'disk' in free || now > timestamp('2020-01-01T00:00:00Z')")).unwrap();
}

#[test]
fn a_policy_that_cannot_work_is_refused_with_a_hint() {
    for (spec, expected) in [
        (built_in("scroe"), "did you mean score?"),
        (built_in("qwertyuiop"), "built in are score, tag_affinity"),
        (score("free_cpu *"), "hint: expressions are CEL"),
        (score("free_cpus / 2.0"), "known names are cluster, weight"),
        (score("free_cpu * 2"), "write 2.0 rather than 2"),
        (score("0.0 / 0.0"), "gives NaN"),
        (score("cluster"), "not a number"),
        (filter("free_cpu"), "not true or false"),
        (filter("tags.all(t, tags.all(u, true))"), "hint:"),
        (score(&" ".repeat(10 << 20)), "at most 1024"),
    ] {
        let error = check(&spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let nan = PolicySpec { name: "score".into(), rule: PolicyRule::BuiltIn { weight: f64::NAN } };
    assert!(matches!(check(&nan), Err(PolicyError::BadWeight { .. })));
    assert!(matches!(
        Policies::compile(&[built_in("score"), built_in("score")]),
        Err(PolicyError::Duplicate { .. })
    ));
}

#[test]
fn the_deepest_expression_allowed_does_not_exhaust_the_stack() {
    for (open, middle, close) in
        [("(", "1.0", ")"), ("[", "1.0", "]"), ("!", "true", ""), ("-", "1.0", ""), ("a.", "b", "")]
    {
        let depth = (1024 - middle.len()) / (open.len() + close.len());
        let text = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
        let _ = check(&score(&text));
        let _ = check(&filter(&text));
    }
    let _ = check(&score(&format!("1.0{}", "+1.0".repeat(255))));
    let _ = check(&score(&format!("1.0{}", "?1.0:2.0".repeat(120))));
}

proptest::proptest! {
    #[test]
    fn no_expression_panics(text in ".{0,80}|[a-z_ ()\\[\\]+*/<>=!&|?:.0-9']{0,120}") {
        let _ = check(&score(&text));
        let _ = check(&filter(&text));
    }
}

#[test]
fn facts_are_what_the_cluster_and_the_work_say() {
    let mut sample = Sample::new();
    sample.snapshot.total.set("disk", Quantity::whole(8).unwrap()).unwrap();
    sample.snapshot.used.set("disk", Quantity::whole(2).unwrap()).unwrap();
    sample.assumed.set("disk", Quantity::whole(1).unwrap()).unwrap();
    sample.free.set("disk", Quantity::whole(5).unwrap()).unwrap();
    sample.snapshot.physical.cpu = Some(Share::of(1, 8));
    let mut work = Sample::work();
    work.demand.set("disk", Quantity::whole(3).unwrap()).unwrap();
    work.owner = Some(multicluster_types::Owner::new("zorro").unwrap());
    let moment = Moment { now: Timestamp(60_000), queued: 7, oldest: Some(Timestamp(15_000)) };
    let facts = Facts { unnamed: Quantity::ZERO, moment, ..sample.facts() };
    for (text, yes) in [
        ("free['disk'] == 5.0 && total['disk'] == 8.0 && demand['disk'] == 3.0", true),
        ("free['CPU'] == free_cpu && total.memory == total_memory", true),
        ("free['tape'] == 0.0 && !('tape' in total) && 'disk' in total", true),
        ("load_cpu == 0.125", true),
        // The hosts do not report these, so the allocated share counts.
        ("load_memory == 0.25 && load_gpu == 0.5", true),
        ("owner == 'zorro' && ray_version == '2.60.0' && python_version.startsWith('3.11')", true),
        ("queued == 7.0 && oldest_wait == 45.0", true),
        ("now.getHours() == 0 && now.getMinutes() == 1 && now.getHours('Asia/Shanghai') == 8", true),
        ("now.getDayOfWeek('Asia/Shanghai') == 4", true),
        ("free['tape'] > 0.0", false),
    ] {
        let (name, rule) = ("mine".into(), PolicyRule::Filter { expression: text.into() });
        let policies = Policies::compile(&[PolicySpec { name, rule }]).unwrap();
        let rejected = policies.reject(&work, &facts);
        assert_eq!(rejected.is_none(), yes, "{text}: {rejected:?}");
    }
    let error = check(&filter("free[1.0] > 0.0")).unwrap_err().to_string();
    assert!(error.contains("hint:"), "{error}");
    let error = check(&filter("now.getHours('Mars/Base') == 1")).unwrap_err().to_string();
    assert!(error.contains("hint:"), "{error}");
}
