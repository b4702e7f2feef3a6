// bus/event_fields.hpp: the fields of every event, as bus/fields.hpp has those of the messages.
#pragma once
#include "bus/events.hpp"
#include "bus/fields.hpp"

namespace ebb::bus {

template <>
inline constexpr std::string_view name_of<residency_flipped> = "residency_flipped";
template <>
inline constexpr auto fields_of<residency_flipped> = std::tuple{
    field{"device", &residency_flipped::device},
    field{"resident", &residency_flipped::resident},
    field{"experts_resident", &residency_flipped::experts_resident},
    field{"experts", &residency_flipped::experts},
};

template <>
inline constexpr std::string_view name_of<resized> = "resized";
template <>
inline constexpr auto base_of<resized> = &resized::card;
template <>
inline constexpr auto fields_of<resized> = std::tuple{field{"cause", &resized::cause}};

template <>
inline constexpr std::string_view name_of<lease_granted> = "lease_granted";
template <>
inline constexpr auto base_of<lease_granted> = &lease_granted::lease;

template <>
inline constexpr std::string_view name_of<lease_ended> = "lease_ended";
template <>
inline constexpr auto base_of<lease_ended> = &lease_ended::lease;
template <>
inline constexpr auto fields_of<lease_ended> = std::tuple{field{"cause", &lease_ended::cause}};

template <>
inline constexpr std::string_view name_of<short_of> = "short";
template <>
inline constexpr auto fields_of<short_of> = std::tuple{
    field{"device", &short_of::device},
    field{"short_mib", &short_of::short_mib},
};

template <>
inline constexpr std::string_view name_of<pressure> = "pressure";
template <>
inline constexpr auto fields_of<pressure> = std::tuple{
    field{"device", &pressure::device},
    field{"begins", &pressure::begins},
    field{"free_mib", &pressure::free_mib},
    field{"wanted_mib", &pressure::wanted_mib},
};

template <>
inline constexpr std::string_view name_of<card_lost> = "card_lost";
template <>
inline constexpr auto fields_of<card_lost> = std::tuple{
    field{"device", &card_lost::device},
    field{"text", &card_lost::text},
};

template <>
inline constexpr std::string_view name_of<model_loaded> = "model_loaded";
template <>
inline constexpr auto fields_of<model_loaded> = std::tuple{
    field{"model", &model_loaded::model},
    field{"cards", &model_loaded::cards},
};

}  // namespace ebb::bus
