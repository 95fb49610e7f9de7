//! What a pattern must not be.

use std::time::Duration;

use crate::cep::expr::{Expr, Link, Negation};
use crate::cep::pattern::{InvalidPattern, Pattern, Report, Starts};

/// Whether the pattern makes sense as a whole.
pub(super) fn check<E>(pattern: &Pattern<E>) -> Result<(), InvalidPattern> {
    check_expr(&pattern.expr, true)?;
    if can_be_empty(&pattern.expr) {
        return Err(InvalidPattern::Everything);
    }
    let mut lengths = [
        ("time that the pattern may take", pattern.within.map(|limit| limit.length)),
        ("time between two events", pattern.within_each.map(|limit| limit.length)),
        (
            "time after which the pattern is reported",
            match pattern.report {
                Report::BestBy(length) | Report::BestAt(length) => Some(length),
                _ => None,
            },
        ),
    ]
    .into_iter();
    if let Some((what, _)) = lengths.find(|(_, length)| *length == Some(Duration::ZERO)) {
        return Err(InvalidPattern::Zero(what));
    }
    if pattern.cap.is_some_and(|cap| cap.runs == 0) {
        return Err(InvalidPattern::Zero("most partial matches that a key may have"));
    }
    if pattern.starts == Starts::EachEvent && waits_first(&pattern.expr) {
        return Err(InvalidPattern::WaitsFirst);
    }
    if let Some(within) = pattern.within {
        check_waits(&pattern.expr, within.length)?;
    } else if ends_forbidden(&pattern.expr) {
        return Err(InvalidPattern::Unending);
    }
    Ok(())
}

fn check_expr<E>(expr: &Expr<E>, is_whole: bool) -> Result<(), InvalidPattern> {
    match expr {
        Expr::Step(step) if step.max_pending == Some(0) => {
            Err(InvalidPattern::Zero("most partial matches that may wait for a step"))
        }
        Expr::Step(_) => Ok(()),
        Expr::Sequence(links) => check_sequence(links, is_whole),
        Expr::Repeat(of, times) => {
            if times.max.is_some_and(|max| max == 0 || max < times.min) {
                return Err(InvalidPattern::Nothing);
            }
            if times.max.is_none() && can_be_empty(of) {
                return Err(InvalidPattern::Endless);
            }
            check_expr(of, false)
        }
        Expr::AllOf(parts) => check_all(parts),
        Expr::AnyOf(parts) | Expr::Either(parts) => {
            if parts.is_empty() {
                return Err(InvalidPattern::Nothing);
            }
            parts.iter().try_for_each(|part| check_expr(part, false))
        }
        Expr::Every(of, _) => {
            if can_be_empty(of) {
                return Err(InvalidPattern::Endless);
            }
            check_expr(of, false)
        }
        Expr::Wait(length) if length.is_zero() => Err(InvalidPattern::Zero("wait")),
        Expr::Wait(_) => Ok(()),
        Expr::Absent(_) => Err(InvalidPattern::LoneAbsence),
        Expr::Within(_, limit) if limit.length.is_zero() => {
            Err(InvalidPattern::Zero("time that a part may take"))
        }
        Expr::Within(of, limit) => {
            check_waits(of, limit.length)?;
            check_expr(of, false)
        }
    }
}

fn check_sequence<E>(links: &[Link<E>], is_whole: bool) -> Result<(), InvalidPattern> {
    let parts = || {
        links.iter().filter_map(|link| match link {
            Link::To(_, part) => Some(part),
            Link::Not(..) => None,
        })
    };
    if parts().next().is_none() {
        return Err(InvalidPattern::Nothing);
    }
    if matches!(links[0], Link::Not(..)) {
        return Err(InvalidPattern::NegationBefore);
    }
    // At the end of a part it would forbid something of what follows, which is not there to be seen.
    if matches!(links.last(), Some(Link::Not(..))) && !is_whole {
        return Err(InvalidPattern::NegationBefore);
    }
    parts().try_for_each(|part| check_expr(part, false))
}

fn check_all<E>(parts: &[Expr<E>]) -> Result<(), InvalidPattern> {
    if parts.is_empty() {
        return Err(InvalidPattern::Nothing);
    }
    if parts.iter().all(|part| matches!(part, Expr::Absent(_))) {
        return Err(InvalidPattern::Unending);
    }
    parts.iter().try_for_each(|part| match part {
        Expr::Absent(of) if can_be_empty(of) => Err(InvalidPattern::Everything),
        Expr::Absent(of) => check_expr(of, false),
        part if can_be_empty(part) => Err(InvalidPattern::Everything),
        part => check_expr(part, false),
    })
}

/// Whether it may be complete without an event and without waiting.
fn can_be_empty<E>(expr: &Expr<E>) -> bool {
    match expr {
        Expr::Step(_) | Expr::Wait(_) | Expr::Absent(_) => false,
        Expr::Sequence(links) => links.iter().all(|link| match link {
            Link::To(_, part) => can_be_empty(part),
            // That something does not come is no event.
            Link::Not(..) => true,
        }),
        Expr::Repeat(of, times) => times.min == 0 || can_be_empty(of),
        Expr::AllOf(parts) => parts.iter().all(can_be_empty),
        Expr::AnyOf(parts) | Expr::Either(parts) => parts.iter().any(can_be_empty),
        Expr::Every(of, _) | Expr::Within(of, _) => can_be_empty(of),
    }
}

/// Whether it may begin with a wait.
fn waits_first<E>(expr: &Expr<E>) -> bool {
    match expr {
        Expr::Step(_) | Expr::Absent(_) => false,
        Expr::Wait(_) => true,
        Expr::Sequence(links) => {
            let parts = links.iter().filter_map(|link| match link {
                Link::To(_, part) => Some(part),
                Link::Not(..) => None,
            });
            // What may be left out does not stand before the wait.
            let needed = parts.clone().position(|part| !can_be_empty(part));
            let last = needed.map_or(usize::MAX, |needed| needed + 1);
            parts.take(last).any(waits_first)
        }
        Expr::AllOf(parts) | Expr::AnyOf(parts) | Expr::Either(parts) => {
            parts.iter().any(waits_first)
        }
        Expr::Repeat(of, _) | Expr::Every(of, _) | Expr::Within(of, _) => waits_first(of),
    }
}

/// Whether the last thing it says is what must never come.
fn ends_forbidden<E>(expr: &Expr<E>) -> bool {
    match expr {
        Expr::Sequence(links) => matches!(links.last(), Some(Link::Not(Negation::Until, _))),
        _ => false,
    }
}

/// The least time that it waits.
fn waits<E>(expr: &Expr<E>) -> Duration {
    match expr {
        Expr::Step(_) | Expr::Absent(_) => Duration::ZERO,
        Expr::Wait(length) => *length,
        Expr::Sequence(links) => links.iter().fold(Duration::ZERO, |sum, link| match link {
            Link::To(_, part) => sum.saturating_add(waits(part)),
            Link::Not(..) => sum,
        }),
        Expr::Repeat(of, times) => waits(of).saturating_mul(times.min),
        Expr::AllOf(parts) => parts.iter().map(waits).max().unwrap_or_default(),
        Expr::AnyOf(parts) | Expr::Either(parts) => {
            parts.iter().map(waits).min().unwrap_or_default()
        }
        Expr::Every(of, _) | Expr::Within(of, _) => waits(of),
    }
}

fn check_waits<E>(expr: &Expr<E>, within: Duration) -> Result<(), InvalidPattern> {
    let waits = waits(expr);
    if waits >= within && !waits.is_zero() {
        return Err(InvalidPattern::TooShort { waits, within });
    }
    Ok(())
}
