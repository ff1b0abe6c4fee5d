"""When waiting jobs start: simulations of the queue, their correction and their scores."""
