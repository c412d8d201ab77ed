#include "check.h"

int main() { return kz::test::run_all_tests(); }
