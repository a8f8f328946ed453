use super::*;

const EARLIER: Timestamp = Timestamp(7);
const NOW: Timestamp = Timestamp(9);

fn standings() -> Vec<Standing> {
    let unheard = |sends, sent| Standing::Unheard { since: EARLIER, sends, sent };
    vec![
        Standing::Sending { sends: 1 },
        Standing::Sending { sends: 3 },
        unheard(1, Sent::UnderWay),
        unheard(1, Sent::MayHaveArrived),
        unheard(2, Sent::Refused("400: no".into())),
        Standing::Pending { lost: None },
        Standing::Pending { lost: Some(EARLIER) },
        Standing::Running { since: EARLIER, lost: None },
        Standing::Running { since: EARLIER, lost: Some(EARLIER) },
    ]
}

fn steps() -> [Step; 9] {
    [
        Step::Accept,
        Step::Start,
        Step::NoAnswer,
        Step::Refuse("400: no".into()),
        Step::LoseContact,
        Step::Resend,
        Step::Stop,
        Step::Forgive,
        Step::Interrupt,
    ]
}

fn live(standing: Standing) -> Live {
    let cluster = ClusterName::new("only").unwrap();
    Live { standing, ..Live::new(Attempt(2), cluster, None, Timestamp(5)) }
}

#[test]
fn every_step_is_an_arrow_of_the_state_diagram_or_changes_nothing() {
    for standing in standings() {
        for step in steps() {
            let (before, transition) = (live(standing.clone()), step.transition());
            let mut after = before.clone();
            match after.apply(step.clone(), NOW) {
                Ok(changed) => assert_eq!(changed, after != before, "{standing:?} {step:?}"),
                Err(impossible) => {
                    assert_eq!(impossible, ImpossibleTransition { from: before.state(), transition });
                    assert_eq!(after, before, "it stays as it is");
                }
            }
            if after.state() != before.state() {
                assert_eq!(before.state().after(transition), Ok(after.state()), "{standing:?} {step:?}");
            }
        }
    }
}

#[test]
fn what_may_have_arrived_may_have_arrived_until_its_cluster_says_otherwise() {
    let uncertain = standings().into_iter().map(live).filter(Live::may_have_arrived);
    for before in uncertain {
        for step in steps() {
            let mut after = before.clone();
            if after.apply(step, NOW).is_ok() {
                assert!(after.may_have_arrived() || after.has_arrived(), "{before:?} {after:?}");
            }
        }
    }
}

#[test]
fn it_is_stored_in_the_shape_it_always_had() {
    for standing in standings() {
        let live = live(standing);
        let text = serde_json::to_string(&live).unwrap();
        assert_eq!(serde_json::from_str::<Live>(&text).unwrap(), live);
    }
    let refused = live(Standing::Unheard { since: NOW, sends: 2, sent: Sent::Refused("no".into()) });
    assert_eq!(
        serde_json::to_string(&refused).unwrap(),
        "{\"attempt\":2,\"cluster\":\"only\",\"incarnation\":null,\"stage\":\"sending\",\
         \"dispatched_at\":5,\"running_at\":null,\"lost_since\":9,\"uncertain\":true,\"sends\":2,\
         \"refused\":\"no\",\"stopping\":false}"
    );
}
