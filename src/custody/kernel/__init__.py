"""What any application stands on: model, ports, stores, engine, history, access, operations. It names none of them."""
