use super::*;

fn site(shape: Shape, in_order: bool, cut_after: bool) -> Site {
    let (kind, location) = ("operator", Location::caller());
    Site { name: kind.to_owned(), kind, shape, in_order, cut_after, drawn: None, location }
}

fn segment(head: Head, inputs: &[usize], ops: &[u32]) -> Segment {
    Segment { head, inputs: inputs.to_vec(), ops: ops.iter().map(|&op| OpId(op)).collect() }
}

const SOURCE: Head = Head::Source { op: OpId(0), in_order: true };

#[test]
fn what_an_ordered_operator_is_fed_by_several_workers_comes_in_ticket_order() {
    let sites = vec![
        site(Shape::Stateless, false, false),
        site(Shape::Stateless, false, true),
        site(Shape::Single, true, false),
    ];
    let plan = Plan::new(Spec { sites, segments: vec![segment(SOURCE, &[], &[1, 2])] }, 4);
    let [first, second] = plan.pieces() else { panic!("{}", plan.explain()) };
    assert_eq!((first.mode, first.ticket_order), (Mode::Parallel, true));
    assert_eq!((second.mode, second.ticket_order), (Mode::Ordered, false));
}

#[test]
fn a_side_output_is_fed_by_its_operator_not_by_the_end_of_the_segment() {
    let sites = vec![
        site(Shape::Stateless, false, false),
        site(Shape::Keyed, false, false),
        site(Shape::Keyed, false, false),
        site(Shape::Single, true, false),
    ];
    let segments =
        vec![segment(SOURCE, &[], &[1, 2]), segment(Head::Side { op: OpId(1) }, &[0], &[3])];
    let plan = Plan::new(Spec { sites, segments }, 4);
    let [with_side, behind, side] = [1, 2, 3].map(|op| plan.piece_of(OpId(op)).unwrap());
    assert_ne!(with_side, behind, "{}", plan.explain());
    assert_eq!(plan.pieces()[side].inputs, [with_side], "{}", plan.explain());
}
