//! Numbers that no key takes.

use super::problems;

/// Checks the message about this number as a `key` of a port with these `others`.
fn told(others: &str, key: &str, number: &str, expected: &str) {
    let found = problems(&format!("[[port]]\nname='a'\n{others}\n{key}={number}\n"));
    let place = format!("4:{}: ", key.len() + 2);
    assert!(found.contains(&format!("{place}{expected}")), "{key} = {number}: {found:#?}");
}

#[test]
fn numbers_out_of_range_are_called_so_and_the_limit_is_named() {
    let generator = "driver='generator'";
    let most = "give at most 9223372036854775807";
    told(
        generator,
        "rate",
        "9223372036854775807",
        "`rate` cannot be 9223372036854775807: it is too large; give at most 9223372036854775806",
    );
    told(generator, "rate", "-1", "`rate` cannot be -1; give 0 or more");
    for large in
        ["9223372036854775808", "18446744073709551615", "99999999999999999999", "99999999999999999999999999999"]
    {
        told(generator, "rate", large, &format!("{large} is too large; {most}"));
        told("driver='tap'", "mtu", large, &format!("{large} is too large; {most}"));
    }
    told(generator, "rate", "0xffffffffffffffff", &format!("18446744073709551615 is too large; {most}"));
    told(generator, "rate", &"9".repeat(60), &format!("the number is too large; {most}"));
    told(
        generator,
        "rate",
        "-9223372036854775809",
        "-9223372036854775809 is too small; give at least -9223372036854775808",
    );
    let guest = "driver='vhost-user'\nsocket='s'";
    let found = problems(&format!("[[port]]\nname='a'\n{guest}\nqueues=99999999999999999999\n"));
    assert!(found.contains(&format!("5:8: 99999999999999999999 is too large; {most}")), "{found:#?}");
}

#[test]
fn numbers_of_another_kind_name_the_wanted_kind() {
    told("driver='generator'", "rate", "1.5", "found floating point `1.5`, expected an integer; give an integer");
    told("driver='generator'", "rate", "true", "found boolean `true`, expected an integer; give an integer");
    told("driver='sink'", "fault.drop", "'x'", "found string \"x\", expected a number; give a number");
}
