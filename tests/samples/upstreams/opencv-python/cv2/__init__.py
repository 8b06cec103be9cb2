from cv2.cv2 import add, getBuildInformation
