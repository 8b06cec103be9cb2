from edit_distance._distance import distance
