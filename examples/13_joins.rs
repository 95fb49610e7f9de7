//! Two streams matched by key and time: orders with payments, prices as they stood, a table of customers
//! that changes, and a limit that another stream sets.

use std::error::Error;
use std::time::Duration;

use mizzle::time::Timestamp;
use mizzle::{Engine, Interval, Query, Status, source};

#[derive(Clone)]
struct Order {
    at: i64,
    id: u32,
    customer: u32,
    pieces: u32,
}

/// When something was said, about what, and what: prices, names, payments.
type Said = (i64, u32, &'static str);

fn seconds(said: &Said) -> Timestamp {
    Timestamp::from_secs(said.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let query = Query::new("orders");
    let orders = [
        Order { at: 10, id: 1, customer: 7, pieces: 2 },
        Order { at: 20, id: 2, customer: 8, pieces: 50 },
        Order { at: 70, id: 3, customer: 7, pieces: 50 },
    ];
    let orders = source::from_iter(orders, |order| Timestamp::from_secs(order.at));
    let orders = query.source("orders", orders).share();
    let said = |name, rows: Vec<Said>| query.source(name, source::from_iter(rows, seconds));

    // Which orders were paid within a minute? Those that were not come out when the minute is over.
    let payments = said("payments", vec![(40, 1, "by card"), (90, 2, "by card")]);
    let paid = orders
        .clone()
        .key_by(|order| order.id)
        .join(payments.key_by(|payment| payment.1))
        .within(Interval::after(Duration::from_secs(60)))
        .left()
        .in_order()
        .map(|(order, payment)| (order.id, payment.is_some()))
        .collect();

    // What was the price when it was ordered? It is the same for all: no key.
    let prices = said("prices", vec![(0, 0, "1.20"), (20, 0, "1.50")]);
    let priced = orders
        .clone()
        .as_of(prices)
        .inner()
        .in_order()
        .map(|(order, price)| (order.id, price.2))
        .collect();

    // Who ordered? A row without a name deletes the customer.
    let names = said("names", vec![(0, 7, "Ann"), (0, 8, "Bob"), (60, 7, "")]);
    let named = orders
        .clone()
        .key_by(|order| order.customer)
        .lookup(names.key_by(|name| name.1))
        .removed_if(|name| name.2.is_empty())
        .left()
        .in_order()
        .map(|(order, name)| (order.id, name.map_or("nobody", |name| name.2)))
        .collect();

    // Which orders are large? What is large another stream says.
    let limits = said("limits", vec![(30, 100, "a large one is larger from now on")]);
    let large = orders
        .with_control(limits, 10, |limit, change| *limit = change.1)
        .filter(|limit, order| order.pieces > *limit)
        .in_order()
        .map(|order| order.id)
        .collect();

    let engine = Engine::new()?;
    let handle = engine.submit(query)?;
    assert_eq!(handle.wait(), Status::Completed);
    println!("paid within a minute: {:?}", paid.values());
    println!("price at the time:    {:?}", priced.values());
    println!("ordered by:           {:?}", named.values());
    println!("large:                {:?}", large.values());
    assert_eq!(paid.values(), [(1, true), (2, false), (3, false)]);
    assert_eq!(priced.values(), [(1, "1.20"), (2, "1.50"), (3, "1.50")]);
    assert_eq!(named.values(), [(1, "Ann"), (2, "Bob"), (3, "nobody")]);
    assert_eq!(large.values(), [2]);
    Ok(())
}
