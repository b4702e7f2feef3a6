// actors/plan.hpp: what several cards' plans come to for the whole model.
#pragma once
#include "bus/messages.hpp"
#include <vector>

namespace ebb::actors {

// A token passes through every stage, so its times add up; each stage has as many picks a token as it has layers.
bus::plan_report together(std::vector<bus::card_plan> cards);

// A token takes so much longer than its stages: from stage to stage, and from the last back to the first.
void add_handover(bus::plan_report& plan, double ms);

}  // namespace ebb::actors
