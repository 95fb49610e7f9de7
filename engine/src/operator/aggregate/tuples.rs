//! Several aggregates in one pass.

use super::{Aggregate, InvalidAggregate, Overflow};

macro_rules! tuple_of_aggregates {
    ($($aggregate:ident $position:tt),*) => {
        impl<T, $($aggregate: Aggregate<T>),*> Aggregate<T> for ($($aggregate,)*) {
            type Acc = ($($aggregate::Acc,)*);
            type Out = ($($aggregate::Out,)*);

            fn check(&self) -> Result<(), InvalidAggregate> {
                $(self.$position.check()?;)*
                Ok(())
            }

            fn create(&self) -> Self::Acc {
                ($(self.$position.create(),)*)
            }

            #[inline(always)]
            fn add(&self, acc: &mut Self::Acc, value: &T) {
                $(self.$position.add(&mut acc.$position, value);)*
            }

            fn merge(&self, acc: &mut Self::Acc, other: &Self::Acc) {
                $(self.$position.merge(&mut acc.$position, &other.$position);)*
            }

            fn finish(&self, acc: &Self::Acc) -> Result<Self::Out, Overflow> {
                Ok(($(self.$position.finish(&acc.$position)?,)*))
            }
        }
    };
}

tuple_of_aggregates!(A 0, B 1);
tuple_of_aggregates!(A 0, B 1, C 2);
tuple_of_aggregates!(A 0, B 1, C 2, D 3);
tuple_of_aggregates!(A 0, B 1, C 2, D 3, E 4);
tuple_of_aggregates!(A 0, B 1, C 2, D 3, E 4, F 5);
