//! Conditions over figures: what they mean, and where errors in them are.

use super::*;

fn holds(condition: &str, value: Option<u64>, margin: HysteresisMargin) -> bool {
    let condition = parse(condition).expect(condition);
    condition.holds(|_| value, margin)
}

/// Goal: a threshold is read in the figure's unit, and each operator keeps to its side. Method: values at and beside the threshold.
#[test]
fn a_figure_is_compared_in_its_unit() {
    for (condition, inside, outside) in [
        ("limit.site.used > 80%", 8_001, 8_000),
        ("limit.site.used >= 99.5%", 9_950, 9_949),
        ("origin.app.p99 > 500ms", 500_001, 500_000),
        ("origin.app.p50<=2s", 2_000_000, 2_000_001),
        ("origin.a.b-c.pending > 100", 101, 100),
        ("connections < 10", 9, 10),
        ("limit.ip.rejected > 50", 51, 50),
    ] {
        assert!(
            holds(condition, Some(inside), HysteresisMargin::None),
            "{condition}"
        );
        assert!(
            !holds(condition, Some(outside), HysteresisMargin::None),
            "{condition}"
        );
        assert!(
            !holds(condition, None, HysteresisMargin::None),
            "{condition}"
        );
    }
    let name = parse("origin.a.b-c.pending > 100").expect("a name with a dot");
    let figure = LoadFigure::Origin("a.b-c".into(), OriginFigure::Pending);
    assert_eq!(name.figures(), BTreeSet::from([&figure]));
}

/// Goal: within the margin a comparison goes on to hold, on the side that is meant, and the margin is shown as it is judged. Method: a
/// tenth below and above.
#[test]
fn a_margin_is_a_tenth_of_the_threshold() {
    for (condition, last, first, shown) in [
        (
            "origin.app.p99 > 500ms",
            450_001,
            450_000,
            "origin.app.p99 > 450ms",
        ),
        (
            "limit.site.used >= 80%",
            7_200,
            7_199,
            "limit.site.used >= 72%",
        ),
        ("connections < 100", 109, 110, "connections < 110"),
    ] {
        assert!(
            holds(condition, Some(last), HysteresisMargin::Tenth),
            "{condition}"
        );
        assert!(
            !holds(condition, Some(first), HysteresisMargin::Tenth),
            "{condition}"
        );
        assert_eq!(parse(condition).expect(condition).with_margin(), shown);
    }
}

/// Goal: `and` asks for all, `or` for any, and an unknown figure for nothing. Method: two figures, of which one is unknown.
#[test]
fn comparisons_are_joined_by_one_word() {
    let figures = |figure: &LoadFigure| (*figure == LoadFigure::Connections).then_some(5);
    let of = |joint: &str| {
        let text = format!("connections > 4 {joint} origin.app.p99 > 1ms");
        parse(&text)
            .expect("a condition")
            .holds(figures, HysteresisMargin::None)
    };
    assert!(of("or") && !of("and"));
}

/// Goal: every error is told where it is. Method: one of each kind, and the part of the text that is pointed at.
#[test]
fn an_error_points_at_its_place() {
    for (text, part) in [
        ("", ""),
        ("p99 > 500ms", "p99"),
        ("origin.app > 1", "origin.app"),
        ("origin..p99 > 1ms", "origin..p99"),
        ("origin.app.p95 > 1ms", "origin.app.p95"),
        ("limit.site.usage > 1%", "limit.site.usage"),
        ("store.x.y > 1", "store.x.y"),
        ("origin.app.p99 == 500ms", "=="),
        ("origin.app.p99 >", ""),
        ("origin.app.p99 > 500", "500"),
        ("origin.app.p99 > 3m", "3m"),
        ("origin.app.errors > 5", "5"),
        ("limit.site.used > 101%", "101%"),
        ("connections > 10%", "10%"),
        (
            "connections > 1 and connections > 2 or connections > 3",
            "or",
        ),
        ("connections > 1, connections > 2", "1,"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(&text[error.at.clone()], part, "{error:?}");
    }
}
