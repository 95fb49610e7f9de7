//! What must not compile, and what the compiler says then.

#[test]
fn mistakes_do_not_compile_and_say_why() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
