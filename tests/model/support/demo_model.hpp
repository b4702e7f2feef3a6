// tests/model/support/demo_model.hpp: the demo model, opened once.
#pragma once
#include "model/checkpoint.hpp"
#include <catch2/catch.hpp>

namespace ebb::model::test {

inline std::shared_ptr<const checkpoint> demo_model() {
  static const auto opened = checkpoint::open(EBB_DEMO_MODEL);
  REQUIRE(opened);
  return *opened;
}

}  // namespace ebb::model::test
