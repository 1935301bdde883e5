"""The ground floor: pure functions that serve all rooms, in an order without circles."""
